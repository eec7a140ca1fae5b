// Overrides: `key=value` on the command line and in `smoke`.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/deprecated_names.h"
#include "core/recipe/merge.h"

namespace accel {

/// A parsed override.
struct Override : KeyedValue {
  std::string mark;  ///< "+" appends, "!" replaces a section whole, else ""
};

/// Parses `a.b=v`, `a+=v`, `a!=v` (v is YAML on one line) and `~a`. Anything else is reported and
/// has an empty `path`. `number` is the argument's position on the command line.
Override parse_override(const std::string& argument, int number, Diagnostics& problems);

/// The path with dots between its parts.
std::string joined_path(const Override& change);

/// The overrides in a section such as `smoke: {train.until: 4 steps}`, marks included.
std::vector<Override> overrides_of(const Node& section, Diagnostics& problems);

/// Applies all overrides to `recipe` as one layer: sections before their keys and `type` before its
/// siblings, so that the order matters only for two of the same key; then the last wins. Missing
/// list items are reported here, unknown keys by the schema.
void apply_overrides(Node& recipe, std::vector<Override> overrides, Merging& merging);

}  // namespace accel
