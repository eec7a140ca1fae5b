// Optimizers that precondition updates by an estimate of the Hessian's diagonal.
#pragma once

#include <cstdint>

namespace accel {

/// The step makes the estimate before the update: a backward pass of the loss of labels that the
/// task samples from the model's outputs, whose gradients are reduced over ranks as others are.
class UsesHessianEstimate {
 public:
  virtual ~UsesHessianEstimate() = default;

  /// Whether update_hessian() is due in `step`, from 1, and has not been called in it: a step that
  /// ran out of memory is repeated.
  virtual bool wants_estimate(int64_t step) const = 0;
  /// Changes state only. The gradients are those of the mean loss over `labels` sampled labels.
  virtual void update_hessian(int64_t step, double labels) = 0;
};

}  // namespace accel
