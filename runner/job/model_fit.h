// Whether the model, the task and the data of a recipe go together, before anything is written.
#pragma once

#include "runner/job/job.h"

namespace accel {

/// Throws RecipeError, at its place, when the model does not tell what the task asks for, or when
/// tokens are hidden for another task than the one that guesses them.
void check_task_fits(const Job& job);

/// Throws RecipeError, at the eval data, when the model or one of the task's cannot take its
/// samples. Nothing without eval data.
void check_eval_data_fits(const Job& job);

}  // namespace accel
