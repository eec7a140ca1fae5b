// One optimizer's update from complete gradients: unscaling, clipping, the step.
#pragma once

#include <c10/util/FunctionRef.h>

#include <optional>

#include "train/job/job.h"
#include "train/precision/precision.h"

namespace accel {

/// As `train.max_grad_norm` and `train.max_grad_value` of the recipe.
struct GradientLimits {
  std::optional<double> max_norm;
  std::optional<double> max_value;
};

/// Unscales and clips the gradients and makes the update. `before_update(norm)` is called before a
/// weight changes and may throw to prevent it; the norm, 0-d, is that of the true gradients before
/// clipping. False: fp16 overflowed, and no weight has changed.
bool apply_gradients(const OptimizerBinding& binding, Precision& precision,
                     const GradientLimits& limits,
                     c10::function_ref<void(const at::Tensor& norm)> before_update);

/// After apply_gradients(): adapts the loss scale and drops the gradients.
void reset_gradients(const OptimizerBinding& binding, Precision& precision);

}  // namespace accel
