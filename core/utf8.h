// UTF-8 as recipes and terminals need it: what is valid, and what can be shown.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// Bytes of the character at `at`, or 0 when the bytes there are no valid UTF-8.
size_t character_length(std::string_view text, size_t at);

bool is_utf8(std::string_view text);

/// Whether the valid character at `at` is one of C0, DEL and C1: what a terminal would act on.
bool is_control(std::string_view text, size_t at);

/// Where the first byte is that is no valid UTF-8, or a control character other than tab, line feed
/// and carriage return.
std::optional<size_t> first_unreadable(std::string_view text);

/// Columns that a valid character takes on a terminal: 0 for combining marks, 2 for wide ones.
size_t display_width(std::string_view character);

/// Safe to print on one line: control characters and broken bytes become "\x1b".
std::string printable(std::string_view text);

}  // namespace accel
