// Cross-entropy loss for many classes.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// The mean of -log softmax(row)[target] over the rows of `logits` [rows, classes], a
/// differentiable scalar. `targets` [rows] is int64; rows with target `ignored` do not count, and
/// the mean of no rows is NaN. Throws as ATen for other targets out of range. Reference:
/// at::cross_entropy_loss(). The fused kernel supports contiguous float32 on the CPU and allocates
/// the gradient only; within 1e-6 of the reference, for any number of threads with the same bits.
/// On GPUs it is cuda_cross_entropy().
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored);

}  // namespace accel
