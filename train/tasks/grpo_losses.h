// Losses and advantages of group relative policy optimization (Shao et al., "DeepSeekMath", 2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace accel {

/// How the losses of tokens become the loss of a batch. bnpo: the mean over the tokens of the
/// micro-batch; dr_grpo: Liu et al., 2025; dapo: Yu et al., 2025.
enum class GrpoLoss { kGrpo, kBnpo, kDrGrpo, kDapo };
enum class RewardScale { kGroup, kBatch, kNone };
/// Of the ratio of probabilities: of each token, or of a sequence (GSPO, Zheng et al., 2025).
enum class RatioLevel { kToken, kSequence };

/// With TRL's names and defaults.
struct GrpoLossOptions {
  GrpoLoss loss_type = GrpoLoss::kDapo;
  double beta = 0;
  double epsilon = 0.2;
  std::optional<double> epsilon_high = {};  ///< none: epsilon
  std::optional<double> delta = {};         ///< upper bound of the unclipped ratio
  RatioLevel importance_sampling_level = RatioLevel::kToken;
  bool use_bias_correction_kl = true;  ///< multiplies the divergence by the ratio
  int64_t max_completion_length = 512;
};

/// The tokens of a micro-batch's completions.
struct GrpoTokens {
  at::Tensor log_probs;      ///< [rows, length] F32, with gradients
  at::Tensor old_log_probs;  ///< of the weights that sampled them, detached
  at::Tensor reference;      ///< of the reference; undefined without `beta`
  at::Tensor mask;           ///< [rows, length] F32: 1 for tokens that count, else 0
  at::Tensor advantages;     ///< [rows] F32
};

struct GrpoTokenLosses {
  at::Tensor losses;     ///< [rows, length], or [rows, 1] of sequences without divergence
  at::Tensor kl;         ///< [rows, length], detached; undefined without a reference
  at::Tensor low, high;  ///< 1 where the ratio is below or above its clipping range; detached
};

/// The clipped objective, negated, plus `beta` times the k3 estimate of the divergence from the
/// reference (Schulman, "Approximating KL divergence", 2020).
GrpoTokenLosses grpo_token_losses(const GrpoTokens& tokens, const GrpoLossOptions& options);

/// The loss of a micro-batch, 0-d. `dapo_tokens`: the number of tokens that divides the sum of
/// losses of `dapo`.
at::Tensor grpo_batch_loss(const at::Tensor& losses, const at::Tensor& mask,
                           const GrpoLossOptions& options, double dapo_tokens);

/// The weighted sums of rewards over functions, [rows] F64, from [rows, functions] F64: NaN is a
/// function that does not apply, and the sum of such alone.
at::Tensor weighted_rewards(const at::Tensor& rewards, const std::vector<double>& weights);

/// Standard deviation with Bessel's correction over the last dimension, without NaN; NaN for fewer
/// than two values.
at::Tensor nan_std(const at::Tensor& values);

/// Advantages [rows] F64 of rewards [rows], groups of `group` successive ones: the distance from
/// the group's mean, divided by 1e-4 plus the group's standard deviation or `batch_std`. 0 for NaN.
at::Tensor group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale,
                            double batch_std);

}  // namespace accel
