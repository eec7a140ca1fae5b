// What a norm over the last dimension computes.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// LayerNorm, or RMSNorm without a mean and a bias, over the last dimension.
struct NormRule {
  bool is_rms = false;
  at::Tensor weight;     ///< [width]
  at::Tensor bias = {};  ///< [width], or undefined
  double eps = 1e-5;
};

}  // namespace accel
