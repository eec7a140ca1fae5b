// `train.micro_batch: auto`: the largest micro-batch that fits into memory, the same on all ranks.
#pragma once

#include <cstdint>

#include "train/job/job.h"

namespace accel {

/// The next smaller size that divides a rank's share of the batch, at most nine tenths as in
/// Accelerate's find_executable_batch_size; 0 when there is none.
int64_t smaller_micro_batch(const BatchPlan& plan);

/// Changes the micro-batch size; the batch stays. Seek the loader afterwards. Memory freed by the
/// old size is returned to the system.
void set_micro_batch(Job& job, int64_t samples);

}  // namespace accel
