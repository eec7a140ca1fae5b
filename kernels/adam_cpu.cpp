#include "kernels/adam_cpu.h"

#include <cmath>

#include "kernels/cpu_target.h"

namespace accel {
namespace {

constexpr int64_t kLine = 16;    // numbers in a line of the cache
constexpr int64_t kAhead = 512;  // numbers; memory is what takes the time

ACCEL_PART_OF_LOOP void update(const AdamFactors& by, float* __restrict p,
                               const float* __restrict g, float* __restrict m, float* __restrict v,
                               int64_t count) {
  const bool little_is_new = by.new_share < 0.5F;
  const float share = little_is_new ? by.new_share : by.new_share - 1.0F;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = std::fma(p[i], by.weight_decay, g[i]);
    const float from = little_is_new ? m[i] : gradient;
    const float average = std::fma(share, gradient - m[i], from);
    const float square = std::fma(by.new_square_share * gradient, gradient, v[i] * by.beta2);
    const float divisor = std::sqrt(square) / by.root_correction + by.eps;
    m[i] = average;
    v[i] = square;
    p[i] = p[i] * by.decay + -by.step_size * average / divisor;
  }
}

ACCEL_PART_OF_LOOP void update_all(const AdamFactors& by, float* p, const float* g, float* m,
                                   float* v, int64_t count) {
  int64_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    // Beyond the end it asks for what nobody reads, which does no harm.
    __builtin_prefetch(p + i + kAhead, 1);
    __builtin_prefetch(g + i + kAhead, 0);
    __builtin_prefetch(m + i + kAhead, 1);
    __builtin_prefetch(v + i + kAhead, 1);
    update(by, p + i, g + i, m + i, v + i, kLine);
  }
  update(by, p + i, g + i, m + i, v + i, count - i);
}

}  // namespace

ACCEL_FOR_EACH_CPU(adam_cpu, update_all,
                   (const AdamFactors& by, float* parameter, const float* gradient, float* average,
                    float* square, int64_t count),
                   (by, parameter, gradient, average, square, count))

}  // namespace accel
