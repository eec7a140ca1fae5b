// From files and arguments to one recipe: includes, layers, overrides and references.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/interpolate.h"
#include "core/merge.h"

namespace accel {

/// A command-line argument and its position, as errors name it.
struct Argument {
  int number = 0;
  std::string text;
};

struct ComposeRequest {
  std::string recipe;               ///< a path, as the user named it, or `builtin:NAME`
  std::vector<Node> below;          ///< layers under the recipe and its includes: a config file
  std::vector<Node> above;          ///< layers over the recipe: flags of the command line
  std::vector<Argument> overrides;  ///< laid over all of these
  bool smoke = false;               ///< lay the recipe's own `smoke` section over it, before these
  std::string builtin_folder;       ///< where `builtin:NAME` is looked up
  /// Texts that stand for what is on disk, by canonical path: files open in an editor.
  std::map<std::string, std::string> texts;
  References references;  ///< `recipe.dir` is answered by compose() itself
};

struct Composition {
  Node recipe;                     ///< one section, ready for Schema::read
  History history;                 ///< for `why`; values as written, references not replaced
  std::vector<std::string> files;  ///< every file that was read, the recipe last
};

/// Lays `below`, the recipe's includes (left to right, each after its own), the recipe, `smoke`,
/// `above` and the overrides over one another, then replaces references.
///
/// `include` is consumed; `recipe`, `vars`, `smoke` and `x-` keys stay in the tree as written.
/// Throws RecipeError when a file cannot be read or parsed; all else that is wrong goes to
/// `problems`, so that the caller can read the tree by its schema and show everything at once.
Composition compose(const ComposeRequest& request, Diagnostics& problems);

}  // namespace accel
