#include "kernels/cpu/loops.h"

#include "core/base/cpu_target.h"

namespace accel {
namespace {

ACCEL_PART_OF_LOOP void forward(const PairRow& of, const float* x, float* y) {
  const int64_t half = of.half;
  const float *cosines = of.cosines, *sines = of.sines;
  for (int64_t i = 0; i < half; ++i) {
    const float first = x[i], second = x[i + half];
    y[i] = first * cosines[i] - second * sines[i];
    y[i + half] = second * cosines[i + half] + first * sines[i + half];
  }
  for (int64_t i = 2 * half; i < of.width; ++i) y[i] = x[i];
}

ACCEL_PART_OF_LOOP void backward(const PairRow& of, const float* dy, float* dx) {
  const int64_t half = of.half;
  const float *cosines = of.cosines, *sines = of.sines;
  for (int64_t i = 0; i < half; ++i) {
    const float first = dy[i], second = dy[i + half];
    dx[i] = first * cosines[i] + second * sines[i + half];
    dx[i + half] = second * cosines[i + half] - first * sines[i];
  }
  for (int64_t i = 2 * half; i < of.width; ++i) dx[i] = dy[i];
}

}  // namespace

ACCEL_FOR_EACH_CPU(rotate_pairs_cpu, forward, (const PairRow& of, const float* x, float* y),
                   (of, x, y))
ACCEL_FOR_EACH_CPU(rotate_pairs_backward_cpu, backward,
                   (const PairRow& of, const float* dy, float* dx), (of, dy, dx))

}  // namespace accel
