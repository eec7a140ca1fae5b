// Cross-entropy of many classes.
#pragma once

#include "core/batch.h"

namespace accel {

/// The mean over the rows of `logits` [rows, classes] of -log softmax(row)[target], a scalar; has a
/// gradient. `targets` [rows] is I64; rows whose target is `ignored` do not count, and of no rows
/// the mean is NaN. Throws as ATen for another target that is no class. Reference:
/// at::cross_entropy_loss(). The fused kernel takes contiguous float32 on the CPU, of memory takes
/// the gradient alone, and is within 1e-6 of the reference; the same bits for any number of
/// threads.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored);

}  // namespace accel
