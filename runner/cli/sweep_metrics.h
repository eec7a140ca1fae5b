// By what a sweep's trials can be compared.
#pragma once

#include <vector>

#include "runner/cli/sweep_trials.h"

namespace accel {

/// Throws RecipeError when the ranking or a stage goes by a metric that trials do not log. Names
/// that are not the same in every run are found by planning a trial, in a process of its own; where
/// one cannot be planned, nothing is said against them.
void check_metrics(const SweepPlace& place, const std::vector<Trial>& trials);

}  // namespace accel
