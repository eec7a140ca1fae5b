// Collectives of tensor and sequence parallelism in a model's forward and backward pass.
#pragma once

#include <memory>

#include "core/api/tensor_parallel.h"
#include "parallel/communicator.h"

namespace accel {

/// The ranks of `group`, the tensor axis of the mesh. With `sequence`, activations between the
/// layers are divided along the sequence: an all-reduce becomes a reduce-scatter and an all-gather.
std::shared_ptr<const TensorRanks> make_tensor_ranks(const std::shared_ptr<Communicator>& group,
                                                     bool sequence);

}  // namespace accel
