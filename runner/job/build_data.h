// From a recipe's data section to loaders.
#pragma once

#include "runner/job/job.h"

namespace accel {

/// Opens the datasets and fills in the job's loaders, sizes, shape and fingerprint.
/// Throws RecipeError or DataError.
void build_data(Job& job);

}  // namespace accel
