// Projections of queries, keys and values by one weight.
#pragma once

#include <vector>

#include "core/api/batch.h"

namespace accel {

/// x.chunk(parts, -1) for a last dimension that is a multiple of `parts`, differentiable. The
/// backward pass takes gradients that lie side by side in one tensor, as those of attention do,
/// without copying them.
std::vector<at::Tensor> split_projection(const at::Tensor& x, int64_t parts);

}  // namespace accel
