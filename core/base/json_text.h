// JSON strings and numbers for strict parsers.
#pragma once

#include <string>
#include <string_view>

namespace accel {

/// The text with every byte that is not valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// The text as a JSON string, quotes included. Invalid UTF-8 is replaced.
std::string json_text(std::string_view text);

/// The shortest JSON number that reads back as the same double; "null" for nan and infinities,
/// which JSON cannot hold.
std::string json_number(double value);

}  // namespace accel
