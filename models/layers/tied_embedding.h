// Embedding tied to the output head.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// tokens [...] to [..., width], rows of `table` [vocab, width]. The gradient is sparse by rows and
/// added to the head's dense gradient in place, without a second gradient of the table's size. With
/// `accelerator.kernels: reference`, and on devices, it is at::embedding. The row `padding` gets no
/// gradient from tokens; -1: none.
at::Tensor tied_embedding(const at::Tensor& table, const at::Tensor& tokens, int64_t padding = -1);

}  // namespace accel
