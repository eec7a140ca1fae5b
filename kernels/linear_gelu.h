// A linear layer and GELU in its exact form.
#pragma once

#include "core/batch.h"

namespace accel {

/// z (1 + erf(z / sqrt(2))) / 2 of each element of z = x W^T + bias (Hendrycks and Gimpel 2016,
/// arXiv:1606.08415, section 2), for x [..., inputs], weight [outputs, inputs] and bias [outputs],
/// which may be undefined; has gradients. Reference: at::gelu(at::linear(x, weight, bias)). Of
/// float32 on the CPU, where autocast makes nothing else of it, the fused kernel adds the bias in
/// GELU's pass, and sums its gradient in the pass back. Within 1e-6 of the reference given the same
/// products, the same bits for any number of threads.
at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace accel
