// Switches adapters off for a pass.
#pragma once

#include <utility>

namespace accel {

/// While it lives, AdaptedLinear computes without its adapter in this thread.
class AdaptersOff {
 public:
  AdaptersOff() : before_(std::exchange(off_, true)) {}
  ~AdaptersOff() { off_ = before_; }
  AdaptersOff(const AdaptersOff&) = delete;
  AdaptersOff& operator=(const AdaptersOff&) = delete;

  static bool is_active() { return off_; }

 private:
  static inline thread_local bool off_ = false;
  bool before_;
};

}  // namespace accel
