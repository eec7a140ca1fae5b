// Adam and AdamW.
#pragma once

#include <vector>

#include "core/batch.h"

namespace accel {

/// Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1, or where decay is decoupled Loshchilov and
/// Hutter 2019 (arXiv:1711.05101), algorithm 2; `amsgrad` is Reddi, Kale and Kumar 2018
/// (arXiv:1904.09237).
struct AdamRule {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, amsgrad, maximize;
};

/// Lists that run in step, each tensor laid out as its parameter.
struct AdamTensors {
  const std::vector<at::Tensor>&parameters, &gradients;
  const std::vector<at::Tensor>&averages, &squares;
  const std::vector<at::Tensor>& largest_squares;  ///< empty without amsgrad
  const std::vector<at::Tensor>& steps;            ///< 0-d float32: this one counted
};

/// One step, in place. Reference: at::_fused_adam_ and at::_fused_adamw_. The fused kernel takes
/// dense float32 on a CPU with FMA, with neither amsgrad nor maximize; within 1e-6 of the
/// reference, the same bits for any number of threads.
void adam_step_(const AdamRule& rule, const AdamTensors& tensors);

}  // namespace accel
