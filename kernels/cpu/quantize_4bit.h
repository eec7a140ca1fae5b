// Quantization of whole blocks to 4-bit codes, over contiguous memory.
#pragma once

#include <cstdint>

namespace accel {

/// The codes of a table of 16 numbers: that of x is codes[number of bounds below x], and
/// codes[15] of NaN.
struct NearestCodes {
  const float* bounds;   ///< [15], ascending
  const uint8_t* codes;  ///< [16]
};
/// Of a block, by index.
struct QuantizedBlocks {
  float* scales;
  uint8_t* codes;  ///< 32 bytes a block, the first of two codes in the high bits
};
/// Quantizes whole blocks of 64 numbers: a scale is the largest magnitude, NaN if there is one, and
/// codes are those of the numbers times the reciprocal of the scale, in [-1, 1].
void quantize_4bit_cpu(const NearestCodes& by, const float* x, int64_t blocks,
                       const QuantizedBlocks& to);

}  // namespace accel
