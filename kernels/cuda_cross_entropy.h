// Cross-entropy loss for many classes on GPUs.
#pragma once

#include <optional>

#include "core/api/batch.h"

namespace accel {

/// cross_entropy() of kernels/cross_entropy.h by the GPU's kernel, for contiguous float32 or
/// bfloat16 logits [rows, classes] and int64 targets [rows] there; nothing for other arguments and
/// where cuda_kernels() has none. The mean is float32, but of the logits' type without autocast. A
/// target out of range makes it NaN, since the host does not wait for the GPU. The gradient takes
/// the memory of the logits when no other tensor shares it and the graph is not retained.
/// Deterministic.
std::optional<at::Tensor> cuda_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                             int64_t ignored);

}  // namespace accel
