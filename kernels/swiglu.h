// SwiGLU activation.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// gate sigmoid(gate) up (Shazeer 2020, arXiv:2002.05202), elementwise and differentiable, for
/// tensors of one shape and type. Reference: at::silu(gate).mul(up). The fused kernels support
/// contiguous float32 and bfloat16, keep no intermediate result and round once; float32 is within
/// 2e-6 of the reference, bfloat16 within one unit in the last place. Deterministic, on the CPU
/// with the same bits for any number of threads.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace accel
