// Gradient norm, clipping, and search for non-finite gradients.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/api/batch.h"

namespace accel {

/// The L2 norm of all gradients as one vector: 0-d, on the first gradient's device, without
/// synchronization; a float32 zero without gradients. With reference kernels bit-identical to
/// Python's clip_grad_norm_.
at::Tensor gradient_norm(std::span<const Parameter> parameters);

/// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), as torch's clip_grad_norm_.
void scale_to_norm(std::span<const Parameter> parameters, const at::Tensor& norm, double max_norm);

/// Clamps every element of every gradient to [-limit, limit].
void clip_grad_value(std::span<const Parameter> parameters, double limit);

/// The name of the first parameter whose gradient has a nan or an infinity.
std::optional<std::string> first_non_finite_gradient(std::span<const Parameter> parameters);

}  // namespace accel
