// Which files' text error messages may show: `include: [/etc/shadow]` must not print its lines.
#pragma once

#include <string_view>

namespace accel {

/// Whether messages may show lines of the file `path`: its name is a recipe's or config's, which
/// ends in .yaml, .yml, .toml or .json.
constexpr bool is_quoted_file(std::string_view path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".toml") ||
         path.ends_with(".json");
}

}  // namespace accel
