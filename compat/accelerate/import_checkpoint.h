// Import of a checkpoint of Accelerate's save_state() into a job.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "train/job/job.h"

namespace accel {

/// Compares the folder with the job, derives the step and the data position, and completes `state`
/// for restore(). `allowed` has the keys that may differ and the files that may be missing. Returns
/// the assumptions, one per line. Throws CheckpointError for other differences and missing files.
/// Loads only the optimizer into the job.
std::vector<std::string> import_accelerate_checkpoint(Job& job, const std::string& folder,
                                                      const std::vector<std::string>& allowed,
                                                      TrainState& state);

}  // namespace accel
