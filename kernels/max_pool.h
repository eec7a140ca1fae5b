// The largest of each window of images.
#pragma once

#include <cstdint>

#include "core/batch.h"

namespace accel {

/// Square windows of one size at one distance from each other, over images with as much padding
/// that never is the largest on all sides; at most half a window.
struct PoolSizes {
  int64_t window;
  int64_t stride;
  int64_t padding = 0;
};

/// x [batch, channels, height, width]; has a gradient. Reference: at::max_pool2d, with the same
/// bits both ways; in 16 bits gradients are summed in float32 and rounded once. The fused kernel
/// takes contiguous float32, bfloat16 and float16 on the CPU, and strides of 1 to 3.
at::Tensor max_pool(const at::Tensor& x, PoolSizes sizes);

}  // namespace accel
