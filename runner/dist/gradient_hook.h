// Calls back when a parameter's gradient is complete in a backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace accel {

/// `call` runs after each accumulation into the parameter's gradient, in the thread of the backward
/// pass, until clear_gradient_hook(). A parameter has one hook; a later one replaces it.
void set_gradient_hook(const at::Tensor& parameter, std::function<void()> call);
void clear_gradient_hook(const at::Tensor& parameter);

}  // namespace accel
