// Norms of a list of tensors.
#pragma once

#include <vector>

#include "core/api/batch.h"

namespace accel {

/// The L2 norm of all elements of `tensors` (at least one), 0-d; float32 for float32 tensors.
/// Reference: the norm of at::_foreach_norm, as Python's clip_grad_norm_. The fused kernel supports
/// contiguous float32 on the CPU, reads each element once, uses all threads and is more accurate;
/// its bits do not depend on the number of threads.
at::Tensor norm_of_all(const std::vector<at::Tensor>& tensors);

/// norm_of_all() of tensors that several ranks hold: each rank writes the terms of its own tensors
/// into one list, in the order of all tensors, of which norm_of_terms() has the same bits. Float64
/// sums of squares with the fused kernel, else norms of type `like`.
at::Tensor norm_terms(const at::Tensor& tensor);
/// Terms of a tensor of as many elements.
int64_t norm_term_count(int64_t elements);
/// Type of the terms of tensors of this type.
at::ScalarType norm_term_type(at::ScalarType type);
at::Tensor norm_of_terms(const at::Tensor& terms);

/// The squared L2 norm of each tensor (at least one), float64 [tensors], on the first one's device
/// and without synchronization; 0 for an empty tensor.
at::Tensor squared_norms(const std::vector<at::Tensor>& tensors);

}  // namespace accel
