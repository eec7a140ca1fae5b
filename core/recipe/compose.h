// Composition of a recipe from files and arguments: includes, layers, overrides, references.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/recipe/interpolate.h"
#include "core/recipe/merge.h"

namespace accel {

/// A command-line argument and its position, for error messages.
struct Argument {
  int number = 0;
  std::string text;
};

struct ComposeRequest {
  std::string recipe;               ///< a path as the user wrote it, or `builtin:NAME`
  std::vector<Node> below;          ///< layers below the recipe and its includes: a config file
  std::vector<Node> above;          ///< layers above the recipe: command-line flags
  std::vector<Argument> overrides;  ///< layered on top of all others
  bool smoke = false;               ///< apply the recipe's `smoke` section before `above`
  std::string builtin_folder;       ///< where `builtin:NAME` is looked up
  /// Texts that replace files, by canonical path: buffers of an editor.
  std::map<std::string, std::string> texts;
  References references;  ///< `recipe.dir` is resolved by compose()
  /// Replaced in each layer before merging, so that the later of two layers wins whichever name
  /// each uses; null: left as written.
  const DeprecatedNames* names = nullptr;
};

struct Composition {
  Node recipe;                     ///< one section, ready for Schema::read
  History history;                 ///< for `why`: values as written, before references are replaced
  std::vector<std::string> files;  ///< all files read, the recipe last
};

/// Merges `below`, the recipe's includes (left to right, each after its own), the recipe, `smoke`,
/// `above` and the overrides in this order, then replaces references.
///
/// `include` is consumed; `recipe`, `vars`, `smoke` and `x-` keys stay in the tree as written.
/// Throws RecipeError when a file cannot be read or parsed; other errors go to `problems`, so that
/// the caller can validate the tree and report all errors at once.
Composition compose(const ComposeRequest& request, Diagnostics& problems);

}  // namespace accel
