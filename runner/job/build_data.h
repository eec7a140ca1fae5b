// From a recipe's data section to loaders.
#pragma once

#include "runner/job/job.h"

namespace accel {

/// Opens the datasets and fills in the job's loaders, sizes, shape and fingerprint.
/// Throws RecipeError or DataError.
void build_data(Job& job);

/// Opens the eval data of a job that knows its training data's shape, and checks that the two mean
/// the same. Throws as build_data() does.
void open_eval_data(Job& job);

/// The transforms of data of that shape, each built for what the one before gives.
std::vector<std::unique_ptr<Transform>> build_transforms(const std::vector<Ref<Transform>>& refs,
                                                         DataShape shape, bool train);

}  // namespace accel
