// GELU in its form with tanh.
#pragma once

#include "core/batch.h"

namespace accel {

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, element by element (Hendrycks and Gimpel
/// 2016, arXiv:1606.08415, section 2); has a gradient. Reference: at::gelu(x, "tanh"). The fused
/// kernel takes contiguous float32 and bfloat16 on the CPU; within 1e-6 of the reference, of
/// bfloat16 the same or a neighbour, the same bits for any number of threads.
at::Tensor gelu_tanh(const at::Tensor& x);

}  // namespace accel
