// Gradient norm, clipping, and search for non-finite gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/api/batch.h"

namespace accel {

/// The L2 norm of all gradients as one vector: 0-d, on the first gradient's device, without
/// synchronization; a float32 zero without gradients. With reference kernels bit-identical to
/// Python's clip_grad_norm_.
at::Tensor gradient_norm(std::span<const Parameter> parameters);

/// The rows (dimension 0) of a tensor that each of `ranks` ranks has of it, as torch.chunk divides
/// them; a scalar is one row. Views; some of the last ones may be empty.
std::vector<at::Tensor> rows_by_rank(const at::Tensor& tensor, int64_t ranks);

/// The L2 norm of all gradients as gradient_norm(), summed over the rows that each of `ranks` ranks
/// would have of them: ranks that have only those get the same bits from norm_of_squares().
at::Tensor gradient_norm_by_rows(std::span<const Parameter> parameters, int64_t ranks);

/// The norm of the squared norms [parameters, ranks], float64: 0-d, float32.
at::Tensor norm_of_squares(const at::Tensor& squares);

/// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), as torch's clip_grad_norm_.
void scale_to_norm(std::span<const Parameter> parameters, const at::Tensor& norm, double max_norm);

/// Clamps every element of every gradient to [-limit, limit].
void clip_grad_value(std::span<const Parameter> parameters, double limit);

/// The name of the first parameter whose gradient has a nan or an infinity.
std::optional<std::string> first_non_finite_gradient(std::span<const Parameter> parameters);

}  // namespace accel
