// Rows of arrays: views and conversion of types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/array.h"

namespace accel {

/// A view of entry `index` of the first dimension; shares memory with `all`.
Array row_of(const Array& all, int64_t index);

/// Converts to float32; float64 is rounded.
Array to_float(const Array& values);

/// Converts integers and booleans to int64. Throws DataError naming `name` beyond 63 bits.
Array to_int64(const Array& values, const std::string& name);

/// `bytes` / 255, correctly rounded, as float32 of the same shape.
Array to_unit_range(const Array& bytes);

/// Writes `count` bytes / 255 to `out`, as to_unit_range().
void put_unit_range(const std::byte* bytes, int64_t count, float* out);

/// One more than the largest of `labels` (int64); 0 for none. Throws DataError naming `name` for a
/// negative label.
int64_t count_classes(const Array& labels, const std::string& name);

/// Targets of samples whose targets are not read: zeros.
Array undefined_classes(int64_t samples);

}  // namespace accel
