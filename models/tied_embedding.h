// A table of embeddings that is the weight of a model's head as well.
#pragma once

#include "core/batch.h"

namespace accel {

/// tokens [...] to [..., width], rows of `table` [vocab, width]. Its gradient has a row for each
/// token and joins the head's, which has all rows: no second one of the table's size is made and
/// added. With `accelerator.kernels: reference`, and on devices, it is at::embedding.
at::Tensor tied_embedding(const at::Tensor& table, const at::Tensor& tokens);

}  // namespace accel
