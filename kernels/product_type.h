// The element type of matrix products under autocast.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

namespace accel {

/// The type in which matrix products of the floating-point `x` are computed: autocast's where it is
/// on for the device, except for float64, and otherwise that of `x`.
inline at::ScalarType product_type(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble
             ? at::autocast::get_autocast_dtype(device)
             : x.scalar_type();
}

}  // namespace accel
