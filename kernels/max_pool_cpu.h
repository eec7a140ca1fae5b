// max_pool()'s loops over one plane of float32.
#pragma once

#include <cstdint>

namespace accel {

/// Sizes of one plane and of what runs over it, rows first.
struct PoolPlane {
  int64_t in[2], out[2];
  int64_t window, stride, padding;
};

/// y [out], the largest of each window, NaN where there is one; places [out]: where it lies in x
/// [in], the first of equals.
void max_pool_cpu(const float* x, const PoolPlane& plane, float* y, int32_t* places);

}  // namespace accel
