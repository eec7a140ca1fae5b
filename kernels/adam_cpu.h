// Adam's step over float32 in memory.
#pragma once

#include <cstdint>

namespace accel {

/// What a step multiplies and adds, of all elements of a tensor.
struct AdamFactors {
  float decay = 1;         ///< of the parameter, before its step: AdamW's
  float weight_decay = 0;  ///< of the parameter, added to the gradient: Adam's
  float new_share = 0;     ///< of the gradient in its average, 1 - beta1
  float beta2 = 0;
  float new_square_share = 0;  ///< 1 - beta2
  float root_correction = 1;   ///< sqrt(1 - beta2^step)
  float eps = 0;
  float step_size = 0;  ///< lr / (1 - beta1^step)
};

/// Where the numbers of a tensor are, none of which overlap.
struct AdamPlace {
  float* parameter;
  const float* gradient;
  float* average;  ///< of the gradients
  float* square;   ///< the average of the gradients' squares
};

/// Updates `count` of each from there on. Rounds as ATen's vectorised _fused_adamw_, which treats a
/// tensor's last few apart. Wants a processor with FMA.
void adam_cpu(const AdamFactors& by, const AdamPlace& at, int64_t count);

}  // namespace accel
