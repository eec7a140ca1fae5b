// Checks that model, task and data of a recipe fit together.
#pragma once

#include "train/job/job.h"

namespace accel {

/// Throws RecipeError, at its position, when the model's output does not fit the task, or tokens
/// are masked for a task other than masked_lm.
void check_task_fits(const Job& job);

/// Throws RecipeError, at the eval data, when the model or a model of the task does not accept its
/// samples.
void check_eval_data_fits(const Job& job);

}  // namespace accel
