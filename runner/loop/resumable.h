// Whether a job may go on from a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/job/recipe_diff.h"

namespace accel {

struct Job;

/// Checks everything before anything is restored, tells what the recipe has changed and which of
/// the machine's facts are others, and returns the former. `allowed`: keys that may differ though
/// they would not fit. Throws Error (recipe) and CheckpointError.
std::vector<RecipeChange> check_resumable(const Job& job, const TrainState& state,
                                          const std::vector<std::string>& allowed);

}  // namespace accel
