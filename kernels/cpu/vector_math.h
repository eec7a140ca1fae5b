// Scalar functions that compilers vectorize.
#pragma once

#include <cstdint>

#include "core/base/cpu_target.h"

// GCC would repeat what follows a clamp for the clamped value, and a vector computes both: GELU's
// division, for instance. Clang has no such option.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps")
#endif

namespace accel {

/// e^x within 2 ulp from -87 to 87, clamped beyond; NaN for NaN. Range reduction by multiples of ln
/// 2 in two parts, then a polynomial of degree 7 (coefficients of Moshier's Cephes library, expf).
ACCEL_PART_OF_LOOP float vector_exp(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 87.0F ? 87.0F : x;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504F + kRounder;
  const float n = shifted - kRounder;
  float r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // The low bits of `shifted` are n.
  const uint32_t power = (__builtin_bit_cast(uint32_t, shifted) + 127U) << 23U;
  return p * __builtin_bit_cast(float, power);
}

ACCEL_PART_OF_LOOP float to_float(float x) {
  return x;
}
/// From the bits of a bfloat16.
ACCEL_PART_OF_LOOP float to_float(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16U);
}

ACCEL_PART_OF_LOOP float to_float(int8_t number) {
  return static_cast<float>(number);
}

ACCEL_PART_OF_LOOP void from_float(float x, float* to) {
  *to = x;
}
/// To the bits of the nearest bfloat16, ties to even; NaN for NaN.
ACCEL_PART_OF_LOOP void from_float(float x, uint16_t* to) {
  constexpr uint32_t kNan = 0x7FC0U;
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U;
  *to = static_cast<uint16_t>(x != x ? kNan : rounded);
}

}  // namespace accel
