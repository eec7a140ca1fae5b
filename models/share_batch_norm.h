// Makes a model's batch norms normalise over all ranks.
#pragma once

#include <functional>

#include "core/batch.h"

namespace accel {

class Model;

/// Gives every batch norm of the model a sum over ranks, called in passes forward and backward by
/// all ranks alike. Returns how many there are. Throws Error (kRecipe) for one of PyTorch's own
/// classes, which knows no ranks.
int64_t share_batch_norm(Model& model, const std::function<void(const at::Tensor&)>& sum);

}  // namespace accel
