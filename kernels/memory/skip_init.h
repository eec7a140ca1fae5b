// Skip-init: no initialization of weights that a checkpoint overwrites.
#pragma once

namespace accel {

/// While it exists, normal and uniform initialization of CPU tensors by this thread leaves memory
/// and generators unchanged. Initializing the 124 million weights of GPT-2 takes a second.
class SkipInit {
 public:
  SkipInit();
  ~SkipInit();
  static bool is_active();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;
};

}  // namespace accel
