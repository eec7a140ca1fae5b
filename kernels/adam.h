// Adam and AdamW optimizer steps.
#pragma once

#include <vector>

#include "core/api/batch.h"

namespace accel {

/// Hyperparameters. Adam: Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1. Decoupled weight decay
/// (AdamW): Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2. `amsgrad`: Reddi, Kale and
/// Kumar 2018 (arXiv:1904.09237).
struct AdamRule {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, amsgrad, maximize;
};

/// Parallel lists; each tensor has the layout of its parameter.
struct AdamTensors {
  const std::vector<at::Tensor>&parameters, &gradients;
  const std::vector<at::Tensor>&averages, &squares;
  const std::vector<at::Tensor>& largest_squares;  ///< empty without amsgrad
  const std::vector<at::Tensor>& steps;            ///< 0-d float32, this step included
  /// 0-d float32 on the parameters' device. 1: nothing is written. Undefined: as 0.
  at::Tensor found_inf = {};
};

/// One step, in place. Reference: at::_fused_adam_ and at::_fused_adamw_. The fused kernel supports
/// dense float32 on CPUs with FMA, without amsgrad and maximize. Its results are within 1e-6 of the
/// reference and do not depend on the number of threads. On GPUs it supports contiguous float32 or
/// bfloat16 of one type without amsgrad and maximize, takes 48 parameters per launch, reads the
/// steps on the GPU and computes in float32.
void adam_step_(const AdamRule& rule, const AdamTensors& tensors);

}  // namespace accel
