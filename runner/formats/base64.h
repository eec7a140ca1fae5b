// Bytes as printable text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// RFC 4648, padded, on one line.
std::string base64(std::string_view bytes);

/// What base64() gave; nothing for any other text.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace accel
