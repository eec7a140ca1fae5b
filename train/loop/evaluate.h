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

/// Calls `body` as evaluate() calls passes: without gradients, with the weights of evaluations,
/// such as the average under `ema`, and models in eval mode. All ranks call it.
void with_evaluated_weights(Job& job, const std::function<void()>& body);

}  // namespace accel
