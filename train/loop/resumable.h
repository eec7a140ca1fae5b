// Compatibility of a job with the checkpoint it is to resume from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "train/recipe/recipe_diff.h"

namespace accel {

struct Job;

/// Checks recipe, data, batches, weights and plugins before anything is restored, logs the changed
/// options and warns of another environment. Returns the changed options. `allowed`: keys whose
/// change is consented to. Throws Error (recipe) and CheckpointError, which offers the commands of
/// `again`.
std::vector<RecipeChange> check_resumable(const Job& job, const TrainState& state,
                                          const std::vector<std::string>& allowed,
                                          const RunAgain& again);

/// The effect of changed options on the learning rate of the next step, in words; "" for none.
/// `state` has been restored into the job; `updates`: of the optimizer until then.
std::string lr_change_text(const Job& job, const TrainState& state, int64_t updates,
                           const std::vector<RecipeChange>& changes);

}  // namespace accel
