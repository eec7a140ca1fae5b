#include "kernels/cpu/loops.h"

#include <cmath>

#include "core/base/cpu_target.h"

namespace accel {
namespace {

constexpr int64_t kLine = 16;    // floats per cache line
constexpr int64_t kAhead = 512;  // prefetch distance in floats; the loop is memory bound

ACCEL_PART_OF_LOOP AdamPlace behind(const AdamPlace& at, int64_t count) {
  return {at.parameter + count, at.gradient + count, at.average + count, at.square + count};
}

ACCEL_PART_OF_LOOP void ask_for(const AdamPlace& at) {
  __builtin_prefetch(at.parameter, 1);
  __builtin_prefetch(at.gradient, 0);
  __builtin_prefetch(at.average, 1);
  __builtin_prefetch(at.square, 1);
}

ACCEL_PART_OF_LOOP void update(const AdamFactors& by, const AdamPlace& at, int64_t count) {
  float* __restrict p = at.parameter;
  const float* __restrict g = at.gradient;
  float* __restrict m = at.average;
  float* __restrict v = at.square;
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

ACCEL_PART_OF_LOOP void update_all(const AdamFactors& by, const AdamPlace& at, int64_t count) {
  int64_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    ask_for(behind(at, i + kAhead));  // may point beyond the end: a prefetch does not fault
    update(by, behind(at, i), kLine);
  }
  update(by, behind(at, i), count - i);
}

}  // namespace

ACCEL_FOR_EACH_CPU(adam_cpu, update_all,
                   (const AdamFactors& by, const AdamPlace& at, int64_t count), (by, at, count))

}  // namespace accel
