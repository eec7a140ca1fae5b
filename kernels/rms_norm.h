// RMSNorm.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// x / sqrt(mean of x^2 over the last dimension + eps) * weight (Zhang and Sennrich 2019,
/// arXiv:1910.07467), differentiable; x [..., width], weight [width]. Reference: at::rms_norm().
/// The fused kernel supports contiguous float32 on the CPU, keeps one number per row for the
/// backward pass, is within 2e-6 of the reference, and has the same bits for any number of threads.
/// On GPUs at::rms_norm() is a fused kernel.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace accel
