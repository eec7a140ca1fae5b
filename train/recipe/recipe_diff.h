// Changes between a checkpoint's recipe and the one that resumes it.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// A changed option.
struct RecipeChange {
  std::string key;   ///< "optimizer.lr"
  std::string then;  ///< as text; empty when absent
  std::string now;
  Change change = Change::kConsent;
};

/// The options that differ between two resolved recipes, in the order of the recipe. `sections`,
/// the top-level fields, and the components of `registry` declare whether a change is allowed.
std::vector<RecipeChange> diff_recipes(const Node& then, const Node& now,
                                       const std::vector<FieldInfo>& sections,
                                       const Registry& registry);

/// Commands for the hint of a refused change. An empty command is not offered.
struct RunAgain {
  std::string resume;   ///< the user's command, which takes `--allow`: "accel-run digits.yaml"
  std::string start;    ///< the same for `--new`
  std::string new_dir;  ///< the run folder of `--new`: "runs/digits-2"
  std::string old_dir;  ///< where `--fresh` keeps the run folder; empty: it is not offered
};

/// Throws CheckpointError with all changes that are impossible, or need consent that `allowed` does
/// not give. `allowed`: keys; a section's key allows all its options.
void check_changes(const std::vector<RecipeChange>& changes,
                   const std::vector<std::string>& allowed, const RunAgain& again = {});

/// Throws Error(kRecipe) for an entry of `allowed` that is neither a key or section of `sections`
/// nor a checkpoint's file name.
void check_allowed(const std::vector<std::string>& allowed, const std::vector<FieldInfo>& sections,
                   const Registry& registry);

}  // namespace accel
