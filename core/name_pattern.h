// Patterns of dotted names: how a recipe picks parameters and modules of a model.
#pragma once

#include <string>
#include <vector>

#include "core/diagnostic.h"

namespace accel {

/// Whether a name fits a pattern: `*` is any run of characters, dots included, `?` any one.
bool name_matches(const std::string& pattern, const std::string& name);

/// Why a pattern picks nothing: what it was to match, "parameter" or the like, and all there are.
struct UnmatchedPattern {
  std::string pattern;
  std::string kind;
  std::vector<std::string> names;

  /// "'*.bais' matches no parameter"
  std::string message() const;
  /// The nearest pattern that would match, or the first names.
  std::string hint() const;
};

}  // namespace accel
