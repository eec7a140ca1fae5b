// Workaround for toml++, whose test for white space is undefined for some characters below U+FEFF:
// they are shifted above it before parsing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// `text`, valid UTF-8, with each character of U+0080 to U+FFFF moved to U+F0080 to U+FFFFF: one
/// for one, so that columns stay. `text` must pass first_in_plane15().
std::string to_plane15(std::string_view text);

/// Inverse of to_plane15(); other characters are unchanged.
std::string from_plane15(std::string_view text);

/// Offset of the first character of U+F0000 to U+FFFFF in `text`, literal or as TOML's escape
/// "\U000F....": from_plane15() would misread it.
std::optional<size_t> first_in_plane15(std::string_view text);

}  // namespace accel
