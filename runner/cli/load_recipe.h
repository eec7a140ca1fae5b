// From a path and overrides to a recipe that is known to be good.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/compose.h"
#include "runner/cli/verbs.h"
#include "runner/job/recipe.h"

namespace accel {

/// Every component of this binary.
const Registry& components();

/// Every component of this binary and of the plugins in these files, as far as their manifests say.
/// Throws Error (recipe).
Registry components_with(const std::vector<std::string>& plugins);

/// Every component of this binary and of the plugins that a checkpoint's recipe names, which are
/// added to `plugins`. Throws RecipeError.
std::shared_ptr<const Registry> components_for(const Node& recipe,
                                               std::vector<PluginIdentity>& plugins);

/// Where the built-in recipes lie: beside the executable's tree, installed or not.
std::string builtin_folder();

struct LoadedRecipe {
  Composition composition;
  RecipeOptions options;
  Node resolved;
  std::shared_ptr<const Registry> registry;  ///< of this binary and the recipe's plugins
  std::vector<std::string> warnings;  ///< words of a config or the environment without effect
};

/// Composes, reads and checks a recipe. Throws RecipeError with everything wrong. `run_dir` is the
/// run's folder when it is known already; else it is runs/<name>. Under the recipe lie the config
/// and, lower still, what Accelerate's variables say.
LoadedRecipe load_recipe(const RecipeArguments& arguments, const std::string& run_dir = {});

/// load_recipe() for a recipe that is to run on this machine: that an InputPath of it is not there
/// is wrong too.
LoadedRecipe load_runnable(const RecipeArguments& arguments, const std::string& run_dir = {});

/// The recipe with all its layers, whatever is wrong with its options; null when a file of it
/// cannot be read.
Node merged_recipe(const RecipeArguments& arguments);

/// Says which config lies under the recipe, and warns of what has no effect.
void tell_layers(const RecipeArguments& arguments, const LoadedRecipe& loaded);

}  // namespace accel
