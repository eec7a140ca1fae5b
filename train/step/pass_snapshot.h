// Snapshot of what a forward pass changes: buffers and random state.
#pragma once

#include <vector>

#include "train/job/job.h"

namespace accel {

/// For the retry of a step, and for passes that do not count.
class PassSnapshot {
 public:
  explicit PassSnapshot(const Job& job);
  void restore(const Job& job) const;

 private:
  std::vector<at::Tensor> buffers_;
  at::Tensor generator_;
  at::Tensor device_generators_;
};

}  // namespace accel
