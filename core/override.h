// `key=value` on the command line and in `smoke`: single words laid over a whole recipe.
#pragma once

#include <string>
#include <vector>

#include "core/merge.h"

namespace accel {

/// One override, read but not yet applied.
struct Override {
  std::vector<std::string> path;  ///< "callbacks.0.decay" in parts; numbers index lists
  std::string mark;               ///< "+" appends, "!" replaces a section whole, else ""
  Node value;
  Span where;  ///< of the key
};

/// Reads `a.b=v`, `a+=v`, `a!=v` (v is YAML on one line) and `~a`. Reports and leaves `path` empty
/// when it is none of these. `number` is the argument's position on the command line.
Override parse_override(const std::string& argument, int number, Diagnostics& problems);

/// The overrides in a section such as `smoke: {train.until: 4 steps}`, marks included.
std::vector<Override> overrides_of(const Node& section, Diagnostics& problems);

/// Lays all of them over `recipe` as one layer: wider ones before narrower ones and `type` before
/// its siblings, so that their order matters only where two set the same key; then the last wins.
/// List items that do not exist are reported; keys no schema knows are left for the schema to
/// report.
void apply_overrides(Node& recipe, std::vector<Override> overrides, Merging& merging);

}  // namespace accel
