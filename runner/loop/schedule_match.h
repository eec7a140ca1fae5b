// Whether the learning rates of a Python script are those of a job.
#pragma once

#include <string>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/job/job.h"
#include "runner/job/recipe_diff.h"

namespace accel {

/// Gives a schedule that watches a metric the state of PyTorch's, or a fresh one. What PyTorch does
/// not keep, the number of drops, follows from the rate.
void carry_schedule(Job& job, int64_t updates, TrainState& state);

/// The differences between the rates that a folder of Accelerate's leads to and those of the job
/// from update `updates` on, as changes of the recipe. What cannot be compared is told in `notes`.
/// Groups must be those of the job.
std::vector<RecipeChange> compare_rates(const Job& job, const TrainState& state, int64_t updates,
                                        std::vector<std::string>& notes);

}  // namespace accel
