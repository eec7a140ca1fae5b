// Losses of models besides the task's.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// A model with a loss besides the task's, such as the load balance of experts. Training adds it to
/// the task's loss of each micro-batch; evaluation does not.
class AuxiliaryLoss {
 public:
  virtual ~AuxiliaryLoss() = default;
  /// The micro-batch of the next forward passes.
  virtual void begin_batch(const Batch& batch) = 0;
  /// The loss of the passes since begin_batch(), 0-d with autograd; undefined for none.
  virtual at::Tensor auxiliary_loss() = 0;
};

}  // namespace accel
