// Evaluation: the loss and metrics over the evaluation set.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "train/job/job.h"

namespace accel {

/// The mean loss and every metric over all evaluation samples: {"eval/loss", ...}. Uses no random
/// numbers and leaves model and callbacks unchanged. The job must have evaluation data. nullopt
/// when `stop`, called between batches, returned true.
std::optional<std::map<std::string, double>> evaluate(Job& job,
                                                      const std::function<bool()>& stop = {});

}  // namespace accel
