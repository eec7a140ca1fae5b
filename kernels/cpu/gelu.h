// Inner loops of GELU, over contiguous memory.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops.h"

namespace accel {

/// y[i] = gelu(x[i]); absolute error below 2e-7 * max(1, |x|).
void gelu_tanh_cpu(const float* x, float* y, int64_t count);
/// The same for bfloat16, rounded to nearest.
void gelu_tanh_cpu(const uint16_t* x, uint16_t* y, int64_t count);
/// dx[i] = dy[i] * the derivative at x[i]; absolute error below 1e-6 * |dy|.
void gelu_tanh_backward_cpu(const float* dy, const float* x, float* dx, int64_t count);
void gelu_tanh_backward_cpu(const uint16_t* dy, const uint16_t* x, uint16_t* dx, int64_t count);

/// y[r, i] = gelu(x[r, i] + bias[i]) for `rows` rows of `width` numbers; absolute error below
/// 3e-7 * max(1, |x + bias|).
void bias_gelu_cpu(const float* x, const float* bias, float* y, int64_t rows, int64_t width);
/// Arrays of rows, and `bias` and `sums` of one row.
struct BiasGeluRows {
  const float *dy, *x, *bias;
  float *dx, *sums;
};
/// dx[r, i] = dy[r, i] * the derivative at x[r, i] + bias[i], with an absolute error below 1e-6 *
/// |dy|; adds dx[r, i] to sums[i].
void bias_gelu_backward_cpu(const BiasGeluRows& of, int64_t rows, int64_t width);

enum class GeluForm { kTanh, kErf };
/// y[r, i] = gelu(z[r, i]) of contiguous z, with the errors of gelu_tanh_cpu() and bias_gelu_cpu().
void gelu_cpu(GeluForm form, const float* z, const VectorRows<float>& y);
/// Arrays of rows that do not overlap, and `sums` of one row.
struct GeluRows {
  const float *z, *dy;
  float *y, *dz, *sums;
};
/// y[r, i] = gelu(z[r, i]) with the bits of gelu_cpu(), and dz[r, i] = dy[r, i] * the derivative at
/// z[r, i], with an absolute error below 1e-6 * |dy|; adds dz[r, i] to sums[i].
void gelu_again_cpu(GeluForm form, const GeluRows& of, int64_t rows, int64_t width);

}  // namespace accel
