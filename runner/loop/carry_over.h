// A folder that Accelerate's save_state wrote, made into a checkpoint of a job.
#pragma once

#include <string>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/job/job.h"

namespace accel {

/// Compares what the folder says with the job, finds the step and data position that it does not
/// say, and fills what restore() wants. `allowed` has the keys whose change is consented to and the
/// files that may be absent. Returns what was assumed, line by line. Throws CheckpointError for
/// whatever is missing or unlike without consent; loads nothing but the optimizer.
std::vector<std::string> carry_over(Job& job, const std::string& folder,
                                    const std::vector<std::string>& allowed, TrainState& state);

}  // namespace accel
