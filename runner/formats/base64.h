// Bytes as printable text.
#pragma once

#include <string>
#include <string_view>

namespace accel {

/// RFC 4648, padded, on one line.
std::string base64(std::string_view bytes);

}  // namespace accel
