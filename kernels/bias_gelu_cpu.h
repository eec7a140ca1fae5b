// The loops of linear_gelu() behind its product, over rows of float32 in memory.
#pragma once

#include <cstdint>

namespace accel {

/// y[r, i] = gelu(x[r, i] + bias[i]) for `rows` rows of `width` numbers; absolute error below
/// 3e-7 * max(1, |x + bias|).
void bias_gelu_cpu(const float* x, const float* bias, float* y, int64_t rows, int64_t width);
/// Rows beside `bias` and `sums` of one row.
struct BiasGeluRows {
  const float *dy, *x, *bias;
  float *dx, *sums;
};
/// dx[r, i] = dy[r, i] * the derivative at x[r, i] + bias[i], with an absolute error below 1e-6 *
/// |dy|; adds each dx[r, i] to sums[i].
void bias_gelu_backward_cpu(const BiasGeluRows& of, int64_t rows, int64_t width);

}  // namespace accel
