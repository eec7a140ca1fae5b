// Forecast of a run's memory and time at its start.
#pragma once

#include <optional>
#include <string>

#include "runner/plan/plan.h"
#include "train/loop/plan_check.h"

namespace accel {

/// The forecast of a built job before its first step, made by rank 0. Job and process are left
/// unchanged. GPU memory is not estimated. The step time is that of an earlier run in `run_dir`
/// with the same batch and ranks. When planning fails or takes over two seconds, prints the reason
/// and returns nothing.
std::optional<Forecast> forecast(const Job& job, const std::string& run_dir);

/// Mean step time of the last hundred intervals of the run in this folder, if it had the same batch
/// and ranks; else 0.
double known_step_seconds(const std::string& run_dir, const BatchPlan& batches);

}  // namespace accel
