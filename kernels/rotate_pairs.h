// Rotation of pairs of elements (RoPE).
#pragma once

#include "core/api/batch.h"

namespace accel {

/// The first elements of each head, rotated in pairs of i and i + half of them, differentiable in x
/// (Su et al. 2021, arXiv:2104.09864): x [batch, heads, length, width], cosines and sines [length,
/// rotated] or [batch, 1, length, rotated]. The rest of a head is copied. Reference: products and
/// sums of ATen's operators. The fused kernel supports float32 on the CPU with adjacent elements of
/// a head, in one pass each way and with the reference's bits.
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines);

}  // namespace accel
