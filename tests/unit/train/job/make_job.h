// Jobs from the text of a recipe, as the executable builds them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infer/model_texts.h"
#include "tests/unit/train/job/read_text.h"
#include "train/job/build_job.h"
#include "train/job/job.h"

namespace accel {

/// The job that the recipe `text`, named r.yaml, says; of plugins it knows these alone. Throws
/// RecipeError.
inline std::unique_ptr<Job> make_job(const std::string& text, const World& world = {},
                                     std::vector<PluginIdentity> plugins = {}) {
  const Registry registry = all_components();
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node tree = parse_recipe("r.yaml", text);
  RecipeOptions recipe = read_recipe(tree, "r", reading);
  problems.check();
  recipe.plugin_identities = std::move(plugins);
  Node resolved = resolve_recipe(recipe, tree);
  return build_job(std::move(recipe), std::move(resolved), registry, world, {texts_of});
}

}  // namespace accel
