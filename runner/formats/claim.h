// What a header claims is computed and compared with the file before memory is taken for it.
#pragma once

#include <cstddef>
#include <optional>

#include "core/array.h"

namespace accel {

/// Bytes that `shape` elements of `type` take; null for a negative size or beyond 63 bits.
std::optional<size_t> claimed_bytes(DType type, const Shape& shape);

}  // namespace accel
