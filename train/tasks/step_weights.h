// The weights by which StepContext::update() averages micro-batches.
#pragma once

#include <cstddef>

namespace accel {

/// Implemented by step contexts, for tasks whose loss has a mean over other items than those of
/// Task::weight().
class StepWeights {
 public:
  virtual ~StepWeights() = default;
  /// Task::weight() of an item of StepContext::micro_batches(); 0 for one that does not count.
  virtual double weight_of(size_t micro_batch) const = 0;
  /// Of the global batch, the same on all ranks.
  virtual double total_weight() const = 0;
};

}  // namespace accel
