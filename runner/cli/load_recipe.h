// From a path and overrides to a recipe that is known to be good.
#pragma once

#include <string>

#include "core/compose.h"
#include "runner/cli/verbs.h"
#include "runner/job/recipe.h"

namespace accel {

/// Every component of this binary.
const Registry& components();

/// Where the built-in recipes lie: beside the executable's tree, installed or not.
std::string builtin_folder();

struct LoadedRecipe {
  Composition composition;
  RecipeOptions options;
  Node resolved;
};

/// Composes, reads and checks a recipe. Throws RecipeError with everything wrong. `run_dir` is the
/// run's folder when it is known already; else it is runs/<name>.
LoadedRecipe load_recipe(const RecipeArguments& arguments, const std::string& run_dir = {});

}  // namespace accel
