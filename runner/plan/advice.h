// Changes of a recipe that make it fit into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/plan/plan.h"

namespace accel {

struct Advice {
  std::vector<std::string> overrides;  ///< as on a command line
  std::string price;                   ///< what they cost besides
  int64_t bytes = 0;                   ///< that a rank takes then
};

/// The plan with these overrides; nothing where the recipe does not go with them.
using Replan = std::function<std::optional<Plan>(const std::vector<std::string>& overrides)>;

/// Up to three changes, the cheapest first, each of which brings what a rank takes down to
/// `bytes`, `process` of them taken anyway. Where none does alone, one that joins them, or none.
std::vector<Advice> advise(const RecipeOptions& recipe, const Plan& plan, int64_t process,
                           int64_t bytes, const Replan& replan);

}  // namespace accel
