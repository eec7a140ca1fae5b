// LayerNorm of the residual stream in float32 on the CPU.
#pragma once

#include "core/api/batch.h"
#include "kernels/norm_rule.h"

namespace accel {

/// The tensors that a forward pass writes, of the sizes of x: sum = x + branch (x itself without a
/// branch), its norm y, and statistics [2, rows], means and 1 / deviation.
struct NormResults {
  const at::Tensor &sum, &y, &statistics;
};

/// Contiguous float32 on the CPU; `branch` may be undefined. The bits do not depend on the number
/// of threads. Reference: at::layer_norm() of the sum, within 1e-6 of the largest value. Fake
/// tensors are not written.
void layer_norm(const at::Tensor& x, const at::Tensor& branch, const NormRule& rule,
                const NormResults& to);

/// Gradients of the norm and, where it is defined, of other uses of the sum.
struct NormSlopes {
  const at::Tensor &dy, &dsum;
};

struct NormGradients {
  at::Tensor sum, weight, bias;
};

/// Of all, in one pass over the rows; otherwise as layer_norm(). `saved.y` is not read.
NormGradients layer_norm_backward(const NormResults& saved, const NormRule& rule,
                                  const NormSlopes& slopes);

}  // namespace accel
