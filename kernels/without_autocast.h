// Switches autocast off for a device.
#pragma once

#include <ATen/autocast_mode.h>

namespace accel {

/// While it exists, this thread's operators on the device keep the types of their arguments.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(at::DeviceType device)
      : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~WithoutAutocast() { at::autocast::set_autocast_enabled(device_, was_enabled_); }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
};

}  // namespace accel
