// What a run that is about to start will take.
#pragma once

#include <optional>
#include <string>

#include "runner/loop/plan_check.h"
#include "runner/plan/plan.h"

namespace accel {

/// Of a job that is built and has not begun, by rank 0 of its ranks; neither the job nor the
/// process is other than before. The memory of a model on a GPU is not foretold. The time of a step
/// is that of the run in `run_dir`, as far as it got with the same batch and ranks. What cannot be
/// planned, or not in two seconds, is told, and nothing is returned.
std::optional<Forecast> forecast(const Job& job, const std::string& run_dir);

/// As long as a step of the run in this folder took, in its last hundred intervals, where that had
/// the same batch and ranks; 0: there is no such run.
double known_step_seconds(const std::string& run_dir, const BatchPlan& batches);

}  // namespace accel
