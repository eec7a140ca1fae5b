// `train.micro_batch: auto`: the largest micro-batch that memory holds, alike on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/job/job.h"

namespace accel {

/// What a pass changes although no step is made: buffers and the random state.
class BeforeStep {
 public:
  explicit BeforeStep(const Job& job);
  void restore(const Job& job) const;

 private:
  std::vector<at::Tensor> buffers_;
  at::Tensor generator_;
  at::Tensor device_generators_;
};

/// The next smaller size, at most nine tenths as Accelerate's find_executable_batch_size tries,
/// that divides a rank's part of the batch; 0 when there is none.
int64_t smaller_micro_batch(const BatchPlan& plan);

/// Goes on with micro-batches of another size; the batch stays. The loader must be sought anew.
/// What the size before took goes back to the system.
void set_micro_batch(Job& job, int64_t samples);

}  // namespace accel
