// Characters beyond ASCII in a form that toml++ can read: its test for white space is undefined for
// some below U+FEFF, and defined for all above.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// `text`, valid UTF-8, with each character of U+0080 to U+FFFF moved to U+F0080 to U+FFFFF: one
/// for one, so that columns stay. `text` must pass first_in_plane15().
std::string to_plane15(std::string_view text);

/// Undoes to_plane15(); other characters are left as they are.
std::string from_plane15(std::string_view text);

/// Where `text` first holds a character of U+F0000 to U+FFFFF, written out or as TOML's escape
/// "\U000F....": one that from_plane15() would take for another.
std::optional<size_t> first_in_plane15(std::string_view text);

}  // namespace accel
