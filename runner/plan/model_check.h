// Check of a recipe with its model, without opening the data.
#pragma once

#include <string>
#include <vector>

#include "runner/plan/plan.h"

namespace accel {

/// The options of a resolved recipe that are checked with the model and have a value: name patterns
/// of parameters and layers, and what divides the model: sharding and a mesh.
std::vector<std::string> model_options(const Node& resolved);

/// Builds the model and its optimizer with fake tensors. Throws RecipeError for errors of these
/// options, as a run does. False: the model or its task needs the data, or is built too slowly, and
/// nothing is checked.
bool check_with_model(const std::vector<std::string>& options, const RecipeOptions& recipe,
                      const Node& resolved, const Registry& registry);

}  // namespace accel
