// Losses of direct preference optimization.
#pragma once

#include <ATen/core/Tensor.h>

namespace accel {

enum class DpoLoss {
  kSigmoid,
  kSigmoidNorm,
  kHinge,
  kIpo,
  kRobust,
  kExoPair,
  kNcaPair,
  kBcoPair,
  kSppoHard,
  kApoZero,
  kApoDown,
};

/// Log-probabilities of completions, model minus reference, [pairs] each.
struct PairRatios {
  at::Tensor chosen, rejected;
  at::Tensor chosen_tokens, rejected_tokens;  ///< int64, tokens of each completion
};

struct DpoLossOptions {
  DpoLoss type = DpoLoss::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
};

/// Whether `label_smoothing` changes the loss.
bool has_label_smoothing(DpoLoss type);

/// The loss of each pair, [pairs], as TRL's DPOTrainer computes it. References: Rafailov et al.,
/// "Direct Preference Optimization", 2023 (sigmoid); Mitchell, "A note on DPO with noisy
/// preferences", 2023 (its label smoothing, which TRL 1.16 ignores); Liu et al., 2023 (hinge); Azar
/// et al., 2023 (ipo); Chowdhury et al., 2024 (robust); Ji et al., 2024 (exo_pair); Chen et al.,
/// 2024 (nca_pair); Jung et al., 2024 (bco_pair); Wu et al., 2024 (sppo_hard); D'Oosterlinck et
/// al., 2024 (apo_zero, apo_down).
at::Tensor dpo_losses(const PairRatios& ratios, const DpoLossOptions& options);

}  // namespace accel
