// Sums of rows in independent lanes, which compilers vectorize.
#pragma once

#include <cstdint>

#include "core/base/cpu_target.h"

namespace accel {

constexpr int kLanes = 32;  ///< independent maxima and sums, to hide latency

ACCEL_PART_OF_LOOP float sum_of_lanes(float* lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

ACCEL_PART_OF_LOOP float sum_of_products(const float* a, const float* b, int64_t count) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += a[i] * b[i];
  return sum_of_lanes(lanes);
}

}  // namespace accel
