// What targets can say besides a class or a token.
#pragma once

#include <cstdint>

namespace accel {

/// A target that carries no loss and is not counted: PyTorch's own mark.
inline constexpr int64_t kIgnoredTarget = -100;

}  // namespace accel
