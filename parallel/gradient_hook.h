// Hooks of autograd, as Python's register_post_accumulate_grad_hook.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace accel {

/// Runs `call` after each accumulation into the parameter's gradient, in the thread of the backward
/// pass, until clear_gradient_hook(). Replaces an earlier hook. At most once per backward pass.
void set_gradient_hook(const at::Tensor& parameter, std::function<void()> call);

void clear_gradient_hook(const at::Tensor& parameter);

}  // namespace accel
