// Checks that trackers and the run do not write to the same files.
#pragma once

#include <string>

#include "train/recipe/recipe.h"

namespace accel {

/// Reports trackers whose `path` or `dir` is a file or folder of the run in `run_dir`, or the file
/// of another tracker.
void check_tracker_paths(const RecipeOptions& recipe, const std::string& run_dir,
                         Diagnostics& problems);

}  // namespace accel
