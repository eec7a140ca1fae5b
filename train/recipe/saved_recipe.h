// Resolved recipes that runs and checkpoints have saved, maybe by an older accel-run.
#pragma once

#include <string>

#include "core/recipe/registry.h"

namespace accel {

/// A saved recipe with deprecated names of options and components, and options with another
/// meaning in version 0.1.0, replaced, without warnings.
Node with_current_names(Node recipe, const Registry& registry);

/// Replaces values of version 0.1.0 in the datasets of a resolved recipe: `limit`, the first
/// samples, by `head`, and an empty `prompt`, which is a list now, by its default. A recipe of a
/// later version has neither and is left as it is.
void replace_old_values(Node& recipe);

/// As origin_of(), but values of the resolved recipe at `saved`, an absolute path, have the origins
/// that its comments name: a resume keeps them.
std::string origin_through(const Node& node, const std::string& saved);

/// parse_recipe() of a saved recipe, with deprecated names replaced. Throws RecipeError.
Node parse_saved_recipe(const std::string& path, const std::string& text, const Registry& registry);

}  // namespace accel
