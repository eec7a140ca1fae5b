// Scores of a task's frozen reference, computed before the first step.
#pragma once

#include <string>

#include "train/job/job.h"
#include "train/loop/run_state.h"

namespace accel {

/// In the run folder: scores by sample, for a resumed run.
constexpr auto kReferenceScoresFile = "reference_log_probs.bin";

/// Gives a task that precomputes its reference the scores of the training and the eval data; other
/// tasks stay. All ranks call it, before training from `state` on. Moves the training loader only
/// to return it to the state's position.
void precompute_reference(Job& job, const RunState& state, const std::string& run_dir);

}  // namespace accel
