// Autocast for tests.
#pragma once

#include <ATen/autocast_mode.h>

namespace accel {

/// Autocast in bf16 on the CPU during its lifetime, if `on`.
class CpuAutocast {
 public:
  explicit CpuAutocast(bool on) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~CpuAutocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  CpuAutocast(const CpuAutocast&) = delete;
  CpuAutocast& operator=(const CpuAutocast&) = delete;
};

}  // namespace accel
