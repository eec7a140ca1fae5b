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

struct Update {
  bool made = false;     ///< false: fp16 overflowed, no weight has changed
  double grad_norm = 0;  ///< of the true gradients, before clipping
};

/// Unscales and clips the gradients and makes the update. `before_update(norm)` is called before a
/// weight changes and may throw to prevent it.
Update apply_gradients(const OptimizerBinding& binding, Precision& precision,
                       const GradientLimits& limits,
                       c10::function_ref<void(double norm)> before_update);

/// After apply_gradients(): adapts the loss scale and drops the gradients.
void reset_gradients(const OptimizerBinding& binding, Precision& precision);

}  // namespace accel
