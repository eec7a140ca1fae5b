// A recipe's options and its resolved form, for tests of plans.
#pragma once

#include <string>

#include "core/recipe/diagnostic.h"
#include "tests/unit/train/job/read_text.h"
#include "train/job/build_job.h"

namespace accel {

struct LoadedRecipe {
  Registry registry = all_components();
  RecipeOptions recipe;
  Node resolved;
};

/// Throws RecipeError for errors of the text, whose name is "r.yaml".
inline LoadedRecipe load_recipe(const std::string& text) {
  LoadedRecipe loaded;
  Diagnostics problems;
  Reading reading{problems, loaded.registry};
  const Node tree = parse_recipe("r.yaml", text);
  loaded.recipe = read_recipe(tree, "r", reading);
  problems.check();
  loaded.resolved = resolve_recipe(loaded.recipe, tree);
  return loaded;
}

}  // namespace accel
