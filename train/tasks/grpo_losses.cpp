#include "train/tasks/grpo_losses.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nanmean.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

namespace accel {
namespace {

/// TRL adds it to standard deviations.
constexpr double kSmallStd = 1e-4;

at::Tensor sequence_means(const at::Tensor& values, const at::Tensor& mask) {
  return values.mul(mask).sum(1).div(mask.sum(1).clamp_min(1));
}

}  // namespace

GrpoTokenLosses grpo_token_losses(const GrpoTokens& tokens, const GrpoLossOptions& options) {
  at::Tensor log_ratio = tokens.log_probs.sub(tokens.old_log_probs);
  if (options.importance_sampling_level == RatioLevel::kSequence) {
    log_ratio = sequence_means(log_ratio, tokens.mask).unsqueeze(1);
  }
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor advantages = tokens.advantages.unsqueeze(1);
  const double low = 1 - options.epsilon;
  const double high = 1 + options.epsilon_high.value_or(options.epsilon);
  const at::Tensor bounded = options.delta ? ratio.clamp_max(*options.delta) : ratio;
  GrpoTokenLosses out;
  out.losses = at::minimum(bounded.mul(advantages), ratio.clamp(low, high).mul(advantages)).neg();
  const at::Tensor seen = bounded.detach();
  out.low = seen.lt(low).logical_and(advantages.lt(0)).to(at::kFloat);
  out.high = seen.gt(high).logical_and(advantages.gt(0)).to(at::kFloat);
  if (!tokens.reference.defined()) return out;
  const at::Tensor distance = tokens.reference.sub(tokens.log_probs);
  at::Tensor kl = distance.exp().sub(distance).sub(1);
  if (options.use_bias_correction_kl) kl = kl.mul(ratio);
  out.losses = out.losses.add(kl.mul(options.beta));
  out.kl = kl.detach();
  return out;
}

at::Tensor grpo_batch_loss(const at::Tensor& losses, const at::Tensor& mask,
                           const GrpoLossOptions& options, double dapo_tokens) {
  const at::Tensor counted = losses.mul(mask);
  switch (options.loss_type) {
    case GrpoLoss::kGrpo:
      return sequence_means(losses, mask).mean();
    case GrpoLoss::kBnpo:
      return counted.sum().div(mask.sum().clamp_min(1));
    case GrpoLoss::kDrGrpo:
      return counted.sum().div(static_cast<double>(mask.size(0) * options.max_completion_length));
    case GrpoLoss::kDapo:
      break;
  }
  return counted.sum().div(dapo_tokens);
}

at::Tensor weighted_rewards(const at::Tensor& rewards, const std::vector<double>& weights) {
  const at::Tensor sums = rewards.mul(at::tensor(weights, rewards.options())).nansum(1);
  const at::Tensor applies = rewards.isnan().logical_not().any(1);
  return at::where(applies, sums, at::full_like(sums, NAN));
}

at::Tensor nan_std(const at::Tensor& values) {
  const at::Tensor count = values.isnan().logical_not().sum(-1).to(values.scalar_type());
  const at::Tensor mean = at::nanmean(values, -1, /*keepdim=*/true);
  const at::Tensor variance = values.sub(mean).square().nansum(-1).div(count.sub(1));
  return at::where(count.gt(1), variance, at::full_like(variance, NAN)).sqrt();
}

at::Tensor group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale,
                            double batch_std) {
  const at::Tensor grouped = rewards.view({-1, group});
  at::Tensor advantages = grouped.sub(at::nanmean(grouped, 1, /*keepdim=*/true));
  if (scale == RewardScale::kGroup) {
    advantages = advantages.div(nan_std(grouped).unsqueeze(1).add(kSmallStd));
  } else if (scale == RewardScale::kBatch) {
    advantages = advantages.div(batch_std + kSmallStd);
  }
  return advantages.nan_to_num(0).flatten();
}

}  // namespace accel
