// The residual stream of a transformer and its norm before a layer's products.
#pragma once

#include <optional>

#include "core/api/batch.h"
#include "kernels/norm_rule.h"

namespace accel {

struct ResidualNorm {
  at::Tensor sum;     ///< to be used in place of x from here on
  at::Tensor normed;  ///< for matrix products only
};

/// x + branch and its norm, [..., width], differentiable. Reference: x.add(branch), then
/// at::layer_norm() or rms_norm(). The fused kernels do it in one pass, and their backward pass
/// adds the gradients of the sum's other uses; deterministic. On a GPU they write the norm in the
/// type of the matrix products that follow under autocast (which then cast nothing, with the same
/// numbers), and support float32 and bfloat16 with a weight of the same type, and a branch of the
/// products' type. On the CPU they are of LayerNorm in float32.
ResidualNorm residual_norm(const at::Tensor& x, const std::optional<at::Tensor>& branch,
                           const NormRule& rule);

}  // namespace accel
