// SHA-256 (FIPS 180-4): the digest that a plugin's manifest names its file by.
#pragma once

#include <string>

#include "runner/formats/bytes.h"

namespace accel {

/// 64 lower-case hex digits.
std::string sha256_of(ByteSpan bytes);

}  // namespace accel
