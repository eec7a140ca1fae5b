// A pass over the evaluation set.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runner/job/job.h"

namespace accel {

/// The mean loss and every metric over all evaluation samples: {"eval/loss", ...}. Draws no random
/// number and leaves model and callbacks as they were. The job must have evaluation data. Nothing
/// when `stop`, asked between batches, said so.
std::optional<std::map<std::string, double>> evaluate(Job& job,
                                                      const std::function<bool()>& stop = {});

}  // namespace accel
