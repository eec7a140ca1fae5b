// Limits on gradients, and the search for the one that went wrong.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/batch.h"

namespace accel {

/// The L2 norm of all gradients as one vector: 0-d, on the first gradient's device, not read back
/// to the host; a float32 zero when there is no gradient. With reference kernels the same bits as
/// Python's clip_grad_norm_.
at::Tensor gradient_norm(std::span<const NamedTensor> parameters);

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)). Returns the norm they had.
at::Tensor clip_grad_norm_(std::span<const NamedTensor> parameters, double max_norm);

/// Limits every element of every gradient to [-limit, limit].
void clip_grad_value_(std::span<const NamedTensor> parameters, double limit);

/// The name of the first tensor that holds a nan or an infinity.
std::optional<std::string> first_non_finite(std::span<const NamedTensor> tensors);
/// The same for the gradients.
std::optional<std::string> first_non_finite_gradient(std::span<const NamedTensor> parameters);

}  // namespace accel
