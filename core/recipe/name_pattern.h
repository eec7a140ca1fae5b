// Patterns of dotted names, by which a recipe selects parameters and modules of a model.
#pragma once

#include <string>
#include <vector>

#include "core/base/glob.h"
#include "core/recipe/diagnostic.h"

namespace accel {

/// A pattern without a match: `kind` is "parameter" or the like, `names` are all of that kind.
struct UnmatchedPattern {
  std::string pattern;
  std::string kind;
  std::vector<std::string> names;

  /// "'*.bais' matches no parameter"
  std::string message() const;
  /// The closest pattern with a match, or the first names.
  std::string hint() const;
};

}  // namespace accel
