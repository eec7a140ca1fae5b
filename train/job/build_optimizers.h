// Builds models, task, strategies and optimizers of a job.
#pragma once

#include "train/job/job.h"

namespace accel {

/// The recipe's model, the task, and the task's models. An estimate reads no weights. Throws
/// RecipeError.
void build_models(Job& job, const Registry& registry, bool is_estimate);

/// Precision, and an optimizer with its strategy for each group of models. Throws RecipeError, and
/// std::logic_error for a task with inconsistent models and optimizers.
void build_trained(Job& job);

/// Rebuilds the recipe's optimizer from changed options, keeping its state. Throws RecipeError.
void rebuild_optimizer(Job& job);

}  // namespace accel
