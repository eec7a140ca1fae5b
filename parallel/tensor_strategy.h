// Gradients under tensor parallelism.
#pragma once

#include <memory>
#include <vector>

#include "core/api/parameter.h"
#include "parallel/strategy.h"

namespace accel {

/// `data`, which shares gradients over ranks with different samples, for parameters that the ranks
/// of `tensor` divide by Axis::kTensor or hold whole. The gradients of `partial`, whole parameters
/// of the model that act on divided activations, are summed over `tensor` once per step. The norm
/// counts divided parameters over all ranks and whole ones once.
std::unique_ptr<Strategy> make_tensor_parallel(std::unique_ptr<Strategy> data,
                                               const std::vector<Parameter>& partial,
                                               std::shared_ptr<Communicator> tensor);

}  // namespace accel
