// Metric names: which direction is better, and titles for readers.
#pragma once

#include <string>

namespace accel {

/// Whether lower values of a metric such as "eval/loss" are better, by its name: losses, errors and
/// perplexities.
bool lower_is_better(const std::string& metric);

/// "Learning rate" of "train/lr"; names without a title are unchanged.
std::string metric_title(const std::string& metric);

}  // namespace accel
