// fp8 in the linear layers of a job's models.
#pragma once

#include "train/job/job.h"

namespace accel {

/// With `mixed_precision: fp8`, lets the linear layers of Job::trainable_models compute in fp8 and
/// fills Job::fp8_layers; with delayed scaling it replaces Job::precision, which updates the
/// scales. Throws RecipeError for a model without such layers.
void build_fp8(Job& job);

}  // namespace accel
