// UTF-8 validation and terminal display.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Bytes of the character at `at`; 0 for invalid UTF-8.
size_t character_length(std::string_view text, size_t at);

bool is_utf8(std::string_view text);

/// Whether the valid character at `at` is a control character: C0, DEL or C1.
bool is_control(std::string_view text, size_t at);

/// Offset of the first invalid byte or control character other than tab, line feed and carriage
/// return.
std::optional<size_t> first_unreadable(std::string_view text);

/// Columns that a valid character takes on a terminal: 0 for combining marks, 2 for wide ones.
size_t display_width(std::string_view character);

/// Escapes control characters and invalid bytes as "\x1b".
std::string printable(std::string_view text);

}  // namespace accel
