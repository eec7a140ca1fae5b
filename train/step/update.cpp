#include "train/step/update.h"

#include "parallel/gradients.h"

namespace accel {

bool apply_gradients(const OptimizerBinding& binding, Precision& precision,
                     const GradientLimits& limits,
                     c10::function_ref<void(const at::Tensor& norm)> before_update) {
  const Strategy& strategy = *binding.strategy;
  const auto share = [&](const at::Tensor& found_inf) { strategy.reduce_found_inf(found_inf); };
  if (!precision.unscale(binding.parameters, share)) return false;
  const at::Tensor norm = limits.max_norm
                              ? strategy.clip_grad_norm(binding.parameters, *limits.max_norm)
                              : strategy.gradient_norm(binding.parameters);
  if (limits.max_value) {
    strategy.change_gradients(binding.parameters, [limit = *limits.max_value](auto some) {
      clip_grad_value(some, limit);
    });
  }
  before_update(norm);
  binding.optimizer->step();
  return true;
}

void reset_gradients(const OptimizerBinding& binding, Precision& precision) {
  precision.update();
  binding.optimizer->zero_grad();
}

}  // namespace accel
