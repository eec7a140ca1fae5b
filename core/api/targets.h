// Special values of targets.
#pragma once

#include <cstdint>

namespace accel {

/// Target without loss or weight: PyTorch's ignore_index.
inline constexpr int64_t kIgnoredTarget = -100;

}  // namespace accel
