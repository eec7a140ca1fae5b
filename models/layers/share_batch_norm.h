// Synchronization of a model's batch norms over ranks.
#pragma once

#include <functional>

#include "core/api/batch.h"

namespace accel {

class Model;

/// Sets the sum over ranks of all batch norms of the model and returns their number. Ranks call it
/// in the same order, in forward and backward passes. Throws Error (kRecipe) for PyTorch's own
/// batch norm classes, which do not support it.
int64_t share_batch_norm(Model& model, const std::function<void(const at::Tensor&)>& sum);

}  // namespace accel
