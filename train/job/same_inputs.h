// Compares the inputs of all ranks, each of which reads its own files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/job/job.h"

namespace accel {

/// Runs `read`, which opens the job's data and initial weights, and compares what the ranks have
/// read. All ranks call it. Throws the error of `read` on every rank; DataError, the same on all
/// ranks, for a difference from rank 0 that `allowed` does not permit. Warns of permitted ones.
void read_same_inputs(Job& job, const std::vector<std::string>& allowed,
                      const std::function<void()>& read);

}  // namespace accel
