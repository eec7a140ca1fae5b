#include "kernels/cpu/loops.h"

#include <cmath>

#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

constexpr int kLanes = 64;        // independent sums and maxima, to hide latency
constexpr int64_t kBlock = 4096;  // elements summed in float32

ACCEL_PART_OF_LOOP float largest(const float* x, int64_t count) {
  float most[kLanes];
  for (float& lane : most) lane = x[0];
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      most[lane] = x[i + lane] > most[lane] ? x[i + lane] : most[lane];
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) most[lane] = x[i] > most[lane] ? x[i] : most[lane];
  float all = most[0];
  for (const float lane : most) all = lane > all ? lane : all;
  return all;
}

ACCEL_PART_OF_LOOP float block_of_exps(const float* x, float most, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += vector_exp(x[i + lane] - most);
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += vector_exp(x[i] - most);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

ACCEL_PART_OF_LOOP void log_sum_exp(const float* x, int64_t count, float* sum) {
  const float most = largest(x, count);
  double total = 0;
  for (int64_t i = 0; i < count; i += kBlock) {
    total +=
        static_cast<double>(block_of_exps(x + i, most, count - i < kBlock ? count - i : kBlock));
  }
  *sum = most + static_cast<float>(std::log(total));
}

ACCEL_PART_OF_LOOP void scaled_softmax(const float* x, float log_sum, float scale, float* dx,
                                       int64_t count) {
  for (int64_t i = 0; i < count; ++i) dx[i] = scale * vector_exp(x[i] - log_sum);
}

}  // namespace

ACCEL_FOR_EACH_CPU(log_sum_exp_cpu, log_sum_exp, (const float* x, int64_t count, float* sum),
                   (x, count, sum))
ACCEL_FOR_EACH_CPU(scaled_softmax_cpu, scaled_softmax,
                   (const float* x, float log_sum, float scale, float* dx, int64_t count),
                   (x, log_sum, scale, dx, count))

}  // namespace accel
