// GELU activation, also fused with the bias of a linear layer.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, elementwise and differentiable (Hendrycks and
/// Gimpel 2016, arXiv:1606.08415, section 2). Reference: at::gelu(x, "tanh"). The fused kernel
/// supports contiguous float32 and bfloat16 on the CPU; float32 is within 1e-6 of the reference,
/// bfloat16 within one unit in the last place, for any number of threads with the same bits. On
/// GPUs it is cuda_activation().
at::Tensor gelu_tanh(const at::Tensor& x);

/// z (1 + erf(z / sqrt(2))) / 2 of each element of z = x W^T + bias (Hendrycks and Gimpel 2016,
/// arXiv:1606.08415, section 2), differentiable; x [..., inputs], weight [outputs, inputs], bias
/// [outputs] or undefined. Reference: at::gelu(at::linear(x, weight, bias)). For float32 on the CPU
/// without autocast, the fused kernel adds the bias in GELU's pass and sums its gradient in the
/// backward pass. Given the same products it is within 1e-6 of the reference, for any number of
/// threads with the same bits. On GPUs GELU is cuda_activation() of the linear layer's output.
at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace accel
