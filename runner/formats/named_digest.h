// Checksums by the names that Python's hashlib and xxhash give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// In hexadecimal, lower case, of md5, sha1, sha256, xxh32, xxh64, xxh3_64, xxh3_128 and its other
/// name xxh128; none for any other.
std::optional<std::string> named_digest(const std::string& algorithm, std::string_view bytes);

}  // namespace accel
