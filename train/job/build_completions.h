// Connects a task that samples completions to its sampler and its rows.
#pragma once

#include "train/job/build_job.h"
#include "train/job/job.h"

namespace accel {

/// Sets the source of a task that samples completions, and checks that the model, the data and the
/// parallelism fit; other tasks stay. Throws RecipeError.
void build_completions(Job& job, const TextGeneratorFactory& texts);

}  // namespace accel
