// Recipes from text, as the executable reads them.
#pragma once

#include <string>

#include "train/recipe/recipe.h"

namespace accel {

/// Every component of this binary.
inline Registry all_components() {
  Registry registry;
  Registration::enter_all(registry);
  return registry;
}

/// The recipe `text` says, named r.yaml. Throws RecipeError.
inline RecipeOptions read_text(const std::string& text) {
  const Registry registry = all_components();
  Diagnostics problems;
  Reading reading{problems, registry};
  return read_recipe(parse_recipe("r.yaml", text), "r", reading);
}

/// What is wrong with it, as a user sees it; "" when nothing is.
inline std::string complaint_about(const std::string& text) {
  try {
    read_text(text);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

/// The least a recipe must hold.
constexpr auto kLeast =
    "model: mlp\n"
    "data: {train: synthetic/glyphs}\n";

}  // namespace accel
