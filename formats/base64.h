// Base64 encoding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// RFC 4648, padded, without line breaks.
std::string base64(std::string_view bytes);

/// The inverse of base64(); none for any other text.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace accel
