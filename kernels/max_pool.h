// Max pooling of images.
#pragma once

#include <cstdint>

#include "core/api/batch.h"

namespace accel {

/// Square windows with one stride and equal padding on all sides, at most half a window; padding
/// never is the maximum.
struct PoolSizes {
  int64_t window;
  int64_t stride;
  int64_t padding = 0;
};

/// x [batch, channels, height, width]; differentiable. Reference: at::max_pool2d, with the same
/// bits in both passes; 16-bit gradients are summed in float32 and rounded once. The fused kernel
/// supports contiguous float32, bfloat16 and float16 on the CPU, and strides of 1 to 3.
at::Tensor max_pool(const at::Tensor& x, PoolSizes sizes);

}  // namespace accel
