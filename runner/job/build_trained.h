// Models, the task and what each optimizer trains: the parts of a job that learn.
#pragma once

#include "runner/job/job.h"

namespace accel {

/// The recipe's model, the task, and the task's models. Throws RecipeError.
void build_models(Job& job, const Registry& registry);

/// Precision, optimizers, and how ranks share each one's part. Throws RecipeError, and
/// std::logic_error for a task whose parts do not fit together.
void build_trained(Job& job);

/// Builds the recipe's optimizer anew, from options that have changed, with the state it has.
/// Throws RecipeError.
void rebuild_optimizer(Job& job);

}  // namespace accel
