// Builds the data loaders of a recipe.
#pragma once

#include "train/job/job.h"

namespace accel {

/// Opens the datasets and sets the job's loaders, sizes, shape and fingerprint.
/// Throws RecipeError or DataError.
void build_data(Job& job);

/// Opens the eval data of a job whose training data shape is set, and checks that the two agree.
/// Held-out samples must be those of training, by `data_fingerprint` if it is set. Throws as
/// build_data().
void open_eval_data(Job& job);

/// The transforms for data of `shape`, each built for the output shape of the one before.
std::vector<std::unique_ptr<Transform>> build_transforms(const std::vector<Ref<Transform>>& refs,
                                                         DataShape shape, bool train);

}  // namespace accel
