// Data of small samples, for a plan of a recipe whose data is not opened.
#pragma once

#include <vector>

#include "runner/plan/plan.h"

namespace accel {

/// Data of a batch for each rank, of which most models and tasks accept one.
std::vector<DataSchema> small_data(const RecipeOptions& recipe);

}  // namespace accel
