#include "kernels/cpu/loops.h"

#include "core/base/cpu_target.h"

namespace accel {
namespace {

constexpr int64_t kBlock = 4096;
constexpr int kLanes = 64;  // independent sums, to hide latency

ACCEL_PART_OF_LOOP float block_of_squares(const float* x, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] * x[i + lane];
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += x[i] * x[i];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

ACCEL_PART_OF_LOOP void squares(const float* x, int64_t count, double* sum) {
  double total = 0;
  for (int64_t i = 0; i < count; i += kBlock) {
    total += static_cast<double>(block_of_squares(x + i, count - i < kBlock ? count - i : kBlock));
  }
  *sum = total;
}

}  // namespace

ACCEL_FOR_EACH_CPU(sum_of_squares_cpu, squares, (const float* x, int64_t count, double* sum),
                   (x, count, sum))

}  // namespace accel
