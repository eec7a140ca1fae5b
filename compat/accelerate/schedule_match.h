// Comparison of the learning rates of a checkpoint of Accelerate with those of a job.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "train/job/job.h"
#include "train/recipe/recipe_diff.h"

namespace accel {

/// Sets the state of a schedule that watches a metric, from ReduceLROnPlateau or a fresh one. The
/// number of drops, which PyTorch does not save, follows from the learning rate.
void import_schedule(Job& job, int64_t updates, TrainState& state);

/// The differences between the learning rates of the checkpoint and those of the job from update
/// `updates` on, as changes of the recipe. The groups must be those of the job. Adds a line to
/// `notes` about rates that cannot be compared.
std::vector<RecipeChange> compare_rates(const Job& job, const TrainState& state, int64_t updates,
                                        std::vector<std::string>& notes);

}  // namespace accel
