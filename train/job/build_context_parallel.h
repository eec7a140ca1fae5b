// Context parallelism of a job's model by the recipe's `accelerator.parallelism.cp` and `sp`.
#pragma once

#include "train/job/job.h"

namespace accel {

/// Gives the job's model the ranks that divide its sequences, if there are several. Throws
/// RecipeError for a model or task that does not support it.
void divide_sequences(const Job& job);

}  // namespace accel
