// A model's module as names and tensors, so that callers need none of torch/nn.
#pragma once

#include <vector>

#include "core/batch.h"

namespace accel {

class Model;

/// The trainable and frozen parameters in registration order, under PyTorch's dotted names. A
/// tensor that is shared under several names appears once, under the first.
std::vector<NamedTensor> parameters_of(Model& model);

/// The buffers (running statistics and the like), likewise.
std::vector<NamedTensor> buffers_of(Model& model);

/// Moves parameters and buffers, in place.
void move_to(Model& model, at::Device device);

/// Switches dropout, batch statistics and the like on or off. A batch norm whose parameters all are
/// frozen stays off.
void set_training(Model& model, bool training);

}  // namespace accel
