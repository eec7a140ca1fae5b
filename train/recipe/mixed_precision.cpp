#include "train/recipe/mixed_precision.h"

namespace accel {

Schema<ScalerOptions> ScalerOptions::schema() {
  return Schema<ScalerOptions>()
      .field("init_scale", &ScalerOptions::init_scale, "Initial loss scale.", between(1e-30, 1e30))
      .field("growth_factor", &ScalerOptions::growth_factor,
             "Factor of the loss scale after growth_interval steps without overflow.",
             more_than(1.0))
      .field("backoff_factor", &ScalerOptions::backoff_factor,
             "Factor of the loss scale after an overflow.",
             Rule<double>{[](const double& v) { return v > 0 && v < 1; }, "in (0, 1)",
                          "\"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1"})
      .field("growth_interval", &ScalerOptions::growth_interval,
             "Consecutive steps without overflow before the loss scale grows.",
             at_least<int64_t>(1));
}

}  // namespace accel
