// Loading of recipes: compose, read and check a path with its overrides.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/recipe/compose.h"
#include "train/recipe/recipe.h"

namespace accel {

/// Every component of this binary.
const Registry& components();

/// The components of this binary and those that the manifests of these plugins list. Throws
/// Error (recipe).
Registry components_with(const std::vector<std::string>& plugins);

/// The components of this binary and of the plugins of a checkpoint's recipe, which are added to
/// `plugins`. Throws RecipeError.
std::shared_ptr<const Registry> components_for(const Node& recipe,
                                               std::vector<PluginIdentity>& plugins);

/// The folder of the built-in recipes, of an installation or a build.
std::string builtin_folder();

/// A recipe file with the layers that the command line puts under and over it.
struct RecipeArguments {
  std::string path;
  std::string config;       ///< a config file; empty: none
  bool on_cpu = false;      ///< ranks of a config for GPUs run on the CPU
  std::vector<Node> flags;  ///< layers over the recipe and under the overrides
  std::vector<std::string> overrides;
  int first_override = 0;             ///< index in argv of the first one
  std::vector<std::string> allowed;   ///< keys that a resume may change
  bool new_run = false;               ///< number the run folder when it exists
  bool fresh = false;                 ///< rename the run folder and start over
  std::string old_dir;                ///< where to rename it; for ranks, in place of `fresh`
  bool quiet = false;                 ///< print nothing but warnings and errors
  bool smoke = false;                 ///< lay the recipe's `smoke` section over it
  std::string run_dir;                ///< empty: runs/<name>
  bool json = false;                  ///< ranks report errors as JSON
  bool for_submit = false;            ///< for a job on a cluster, not for this machine
  std::optional<int64_t> stop_after;  ///< save and stop after this many steps
  /// Texts used instead of the files on disk, by canonical path.
  std::map<std::string, std::string> texts;
};

struct LoadedRecipe {
  Composition composition;
  RecipeOptions options;
  Node resolved;
  Node submit;                               ///< the config's section `submit`; null: none
  std::shared_ptr<const Registry> registry;  ///< of this binary and the recipe's plugins
  std::vector<std::string> warnings;         ///< keys of a config or the environment without effect
  std::vector<Diagnostic> deprecations;      ///< deprecated names in the recipe
};

/// Composes, reads and checks a recipe; `run_dir` is empty for runs/<name>. The layers are, lowest
/// first, Accelerate's environment variables, the config, the recipe. Throws RecipeError with all
/// errors.
LoadedRecipe load_recipe(const RecipeArguments& arguments, const std::string& run_dir = {});

/// load_recipe() for a run on this machine: a missing InputPath is an error too.
LoadedRecipe load_runnable(const RecipeArguments& arguments, const std::string& run_dir = {});

/// The merged recipe without checks of its options; null when one of its files cannot be read.
Node merged_recipe(const RecipeArguments& arguments);

/// Prints the config in use, and warns of keys without effect and of deprecated names.
void report_layers(const RecipeArguments& arguments, const LoadedRecipe& loaded);
void report_warnings(const LoadedRecipe& loaded);

/// A dotted key of the recipe with deprecated names replaced: "model.hidden_size" of "model.width".
std::string current_key(const std::string& key, const LoadedRecipe& loaded);

}  // namespace accel
