// Element types of ggml, and the conversion of tensors to them.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/array.h"
#include "core/base/bytes.h"

namespace accel {

/// With ggml's numbers. Q8_0: blocks of 32 signed bytes with one float16 scale.
enum class GgmlType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBF16 = 30 };

/// Elements of a quantized block, which does not cross the end of a row.
constexpr int64_t kGgmlBlock = 32;

/// ggml's name: "F16".
const char* name_of(GgmlType type);

/// Whether rows of this many elements can be stored: Q8_0 wants whole blocks.
bool holds_rows_of(GgmlType type, int64_t width);

/// Bytes of `elements` in whole blocks.
size_t ggml_bytes(GgmlType type, int64_t elements);

/// Bits of the nearest float16, ties to even; infinity beyond its range.
uint16_t half_bits(float value);
/// Bits of the nearest bfloat16, ties to even; NaN for NaN.
uint16_t bfloat_bits(float value);

/// Copies `out.size()` elements from `first` on of a floating-point array.
void read_floats(const Array& array, size_t first, std::span<float> out);

/// Writes a floating-point array, converted a piece at a time, with the bits of the gguf package's
/// quantize(). Rows must be whole blocks. Throws FormatError for finite values beyond float16's
/// range in F16 and in the scales of Q8_0, and for other values in Q8_0.
void write_ggml(const Array& array, GgmlType type, const ByteSink& sink);

}  // namespace accel
