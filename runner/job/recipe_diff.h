// What changed between the recipe a checkpoint was made with and the one that resumes it.
#pragma once

#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

/// One option whose value is another one now.
struct RecipeChange {
  std::string key;   ///< "optimizer.lr"
  std::string then;  ///< as text; empty when it was not there
  std::string now;
  Change change = Change::kConsent;
};

/// The options that differ between two resolved recipes, in the order of the recipe. `sections` are
/// the top-level fields, which say what a change of each means.
std::vector<RecipeChange> diff_recipes(const Node& then, const Node& now,
                                       const std::vector<FieldInfo>& sections);

/// Throws CheckpointError listing every change that is impossible, or that needs a consent which
/// `allowed` does not give. `allowed` holds keys; a section's name allows all in it.
void check_changes(const std::vector<RecipeChange>& changes,
                   const std::vector<std::string>& allowed);

/// Throws Error(kRecipe) for a word of `allowed` that is neither a key some recipe of these
/// top-level `sections` may have, nor a section, nor the name of a checkpoint's file.
void check_allowed(const std::vector<std::string>& allowed, const std::vector<FieldInfo>& sections,
                   const Registry& registry);

}  // namespace accel
