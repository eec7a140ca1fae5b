// Language models that bound their logits (Gemma 2, arXiv:2408.00118, section 2).
#pragma once

#include <ATen/core/Tensor.h>

#include "core/api/model.h"

namespace accel {

/// A LanguageModel whose logits are softcap * tanh(hidden @ head_weight^T / softcap).
class SoftcappedLogits {
 public:
  virtual ~SoftcappedLogits() = default;
  /// 0: logits have no bound.
  virtual double logit_softcap() const = 0;
};

/// 0 for models without a bound.
inline double logit_softcap(const LanguageModel& model) {
  const auto* capped = dynamic_cast<const SoftcappedLogits*>(&model);
  return capped ? capped->logit_softcap() : 0;
}

/// The same for `softcap` 0.
inline at::Tensor softcapped(const at::Tensor& logits, double softcap) {
  return softcap > 0 ? logits.div(softcap).tanh().mul(softcap) : logits;
}

}  // namespace accel
