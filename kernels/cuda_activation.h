// Activations on GPUs.
#pragma once

#include <optional>

#include "core/api/batch.h"
#include "kernels/cuda/table.h"

namespace accel {

/// The activation of `x` by the GPU's kernel, differentiable, with the shape and type of `x`; `up`,
/// of the same shape and type, is for SwiGLU only. Nothing where cuda_kernels() has none for the
/// device, or the tensors are not contiguous float32 or bfloat16. Computed in float32 and rounded
/// once; deterministic.
std::optional<at::Tensor> cuda_activation(CudaActivation activation, const at::Tensor& x,
                                          const at::Tensor& up = {});

}  // namespace accel
