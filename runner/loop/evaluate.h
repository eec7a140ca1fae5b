// A pass over the evaluation set.
#pragma once

#include <map>
#include <string>

#include "runner/job/job.h"

namespace accel {

/// The mean loss and every metric over all evaluation samples: {"eval/loss", ...}. Draws no random
/// number and leaves model and callbacks as they were. The job must have evaluation data.
std::map<std::string, double> evaluate(Job& job);

}  // namespace accel
