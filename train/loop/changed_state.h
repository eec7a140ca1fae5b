// The state of a checkpoint for a recipe whose changes add or remove state.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "train/recipe/recipe_diff.h"

namespace accel {

struct Job;

/// Moves the optimizer's state into the groups of the job, by parameter, and completes the sections
/// of callbacks, where `changes`, which are allowed, have others: state that the checkpoint lacks
/// is that of a new run, an average of weights that of the checkpoint's weights. Returns what is
/// new and what is dropped, a line each. `state` is whole.
std::vector<std::string> adapt_to_changes(const Job& job, const std::vector<RecipeChange>& changes,
                                          TrainState& state);

}  // namespace accel
