// Check of name patterns in a recipe whose data is not opened.
#pragma once

#include <string>
#include <vector>

#include "runner/plan/plan.h"

namespace accel {

/// The options of a resolved recipe that select parameters or layers by name patterns and have
/// some: "train.freeze", "optimizer.groups", ...
std::vector<std::string> pattern_options(const Node& resolved);

/// Builds the model and its optimizer with fake tensors. Throws RecipeError for errors of these
/// options, as a run does. False: the model or its task needs the data, or is built too slowly, and
/// nothing is checked.
bool check_patterns(const std::vector<std::string>& options, const RecipeOptions& recipe,
                    const Node& resolved, const Registry& registry);

}  // namespace accel
