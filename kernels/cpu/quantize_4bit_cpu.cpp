#include "core/base/cpu_target.h"
#include "kernels/cpu/quantize_4bit.h"

namespace accel {
namespace {

constexpr int kBlock = 64, kMaxima = 16, kBounds = 15;
constexpr float kLeastScale = 1e-38F;  // a block of zeros has the code of zero

/// The largest magnitude; NaN if there is one.
ACCEL_PART_OF_LOOP float largest_magnitude(const float* x) {
  float maxima[kMaxima] = {};
  for (int i = 0; i < kBlock; i += kMaxima) {
    for (int lane = 0; lane < kMaxima; ++lane) {
      const float size = __builtin_fabsf(x[i + lane]);
      const bool is_taken = size > maxima[lane] || size != size;
      maxima[lane] = is_taken ? size : maxima[lane];
    }
  }
  float largest = maxima[0];
  for (int lane = 1; lane < kMaxima; ++lane) {
    const bool is_taken = maxima[lane] > largest || maxima[lane] != maxima[lane];
    largest = is_taken ? maxima[lane] : largest;
  }
  return largest;
}

ACCEL_PART_OF_LOOP void quantize_blocks(const NearestCodes& by, const float* x, int64_t blocks,
                                        const QuantizedBlocks& to) {
  for (int64_t block = 0; block < blocks; ++block) {
    const float* const from = x + block * kBlock;
    const float scale = largest_magnitude(from);
    to.scales[block] = scale;
    const float factor = 1.0F / (scale < kLeastScale ? kLeastScale : scale);
    float units[kBlock];
    int32_t places[kBlock] = {};
    for (int i = 0; i < kBlock; ++i) {
      float unit = from[i] * factor;
      unit = unit < -1.0F ? -1.0F : unit;
      units[i] = unit > 1.0F ? 1.0F : unit;
    }
    for (int bound = 0; bound < kBounds; ++bound) {
      for (int i = 0; i < kBlock; ++i) places[i] += by.bounds[bound] >= units[i] ? 0 : 1;
    }
    uint8_t* const codes = to.codes + block * (kBlock / 2);
    for (int i = 0; i < kBlock; i += 2) {
      const unsigned pair =
          static_cast<unsigned>(by.codes[places[i]]) << 4U | by.codes[places[i + 1]];
      codes[i / 2] = static_cast<uint8_t>(pair);
    }
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(quantize_4bit_cpu, quantize_blocks,
                   (const NearestCodes& by, const float* x, int64_t blocks,
                    const QuantizedBlocks& to),
                   (by, x, blocks, to))

}  // namespace accel
