#include "core/base/cpu_target.h"
#include "kernels/cpu/loops.h"

namespace accel {
namespace {

/// `x` is not `y`, which the compiler learns from the parameters.
ACCEL_PART_OF_LOOP void forward(const PairRow& of, const float* __restrict x, float* __restrict y) {
  const int64_t half = of.half;
  const float *cosines = of.cosines, *sines = of.sines;
  for (int64_t i = 0; i < half; ++i) y[i] = x[i] * cosines[i] - x[i + half] * sines[i];
  for (int64_t i = half; i < 2 * half; ++i) y[i] = x[i] * cosines[i] + x[i - half] * sines[i];
  for (int64_t i = 2 * half; i < of.width; ++i) y[i] = x[i];
}

ACCEL_PART_OF_LOOP void backward(const PairRow& of, const float* __restrict dy,
                                 float* __restrict dx) {
  const int64_t half = of.half;
  const float *cosines = of.cosines, *sines = of.sines;
  for (int64_t i = 0; i < half; ++i) dx[i] = dy[i] * cosines[i] + dy[i + half] * sines[i + half];
  for (int64_t i = half; i < 2 * half; ++i) {
    dx[i] = dy[i] * cosines[i] - dy[i - half] * sines[i - half];
  }
  for (int64_t i = 2 * half; i < of.width; ++i) dx[i] = dy[i];
}

}  // namespace

ACCEL_FOR_EACH_CPU(rotate_pairs_cpu, forward, (const PairRow& of, const float* x, float* y),
                   (of, x, y))
ACCEL_FOR_EACH_CPU(rotate_pairs_backward_cpu, backward,
                   (const PairRow& of, const float* dy, float* dx), (of, dy, dx))

}  // namespace accel
