// The length of many tensors as one vector.
#pragma once

#include <vector>

#include "core/batch.h"

namespace accel {

/// The L2 norm of all elements of `tensors`, one or more: 0-d, float32 where they are. Reference:
/// the norm of at::_foreach_norm's, as Python's clip_grad_norm_. The fused kernel takes contiguous
/// float32 on the CPU, reads each element once with all threads, and is nearer to the true norm;
/// the same bits for any number of threads.
at::Tensor norm_of_all(const std::vector<at::Tensor>& tensors);

}  // namespace accel
