// The loops of gelu_tanh() over float32 in memory, and over bfloat16 as its bits.
#pragma once

#include <cstdint>

namespace accel {

/// y[i] = gelu(x[i]); absolute error below 2e-7 * max(1, |x|).
void gelu_tanh_cpu(const float* x, float* y, int64_t count);
/// The same, rounded to the nearest.
void gelu_tanh_cpu(const uint16_t* x, uint16_t* y, int64_t count);
/// dx[i] = dy[i] * the derivative at x[i]; absolute error below 1e-6 * |dy|.
void gelu_tanh_backward_cpu(const float* dy, const float* x, float* dx, int64_t count);
void gelu_tanh_backward_cpu(const uint16_t* dy, const uint16_t* x, uint16_t* dx, int64_t count);

}  // namespace accel
