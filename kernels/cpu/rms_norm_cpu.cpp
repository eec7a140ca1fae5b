#include <cmath>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loops.h"

namespace accel {
namespace {

template <int kBytes>
ACCEL_PART_OF_LOOP void forward(const RmsNormRows& of, float* y, float* scales) {
  const float* x = of.x;
  const float *weight = of.weight, width = static_cast<float>(of.width);
  for (int64_t row = 0; row < of.rows; ++row, x += of.width, y += of.width) {
    const float scale = 1.0F / std::sqrt(sum_of_products<kBytes>(x, x, of.width) / width + of.eps);
    for (int64_t i = 0; i < of.width; ++i) y[i] = x[i] * scale * weight[i];
    scales[row] = scale;
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void backward(const RmsNormRows& of, const float* scales,
                                 const RmsNormSlopes& slopes) {
  const float *x = of.x, *dy = slopes.dy, *weight = of.weight;
  float *dx = slopes.dx, *sums = slopes.weight_sums;
  for (int64_t row = 0; row < of.rows; ++row, x += of.width, dy += of.width, dx += of.width) {
    const float scale = scales[row];
    // dx holds the slopes of the scaled numbers until their sum is known.
    for (int64_t i = 0; i < of.width; ++i) {
      dx[i] = dy[i] * weight[i];
      sums[i] += dy[i] * x[i] * scale;
    }
    const float sum = sum_of_products<kBytes>(dx, x, of.width);
    const float back = sum * scale * scale / static_cast<float>(of.width);
    for (int64_t i = 0; i < of.width; ++i) dx[i] = scale * (dx[i] - x[i] * back);
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU_OF(rms_norm_cpu, (forward<64>, forward<32>, forward<16>),
                      (const RmsNormRows& of, float* y, float* scales), (of, y, scales))
ACCEL_FOR_EACH_CPU_OF(rms_norm_backward_cpu, (backward<64>, backward<32>, backward<16>),
                      (const RmsNormRows& of, const float* scales, const RmsNormSlopes& slopes),
                      (of, scales, slopes))

}  // namespace accel
