#include "train/tasks/dpo_losses.h"

#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>
#include <stdexcept>

namespace accel {
namespace {

at::Tensor minus_log_sigmoid(const at::Tensor& x) {
  return at::log_sigmoid(x).neg();
}

/// The log-probability per token.
at::Tensor per_token(const at::Tensor& ratio, const at::Tensor& tokens) {
  return ratio.div(tokens.clamp_min(1));
}

at::Tensor normalized_margin(const PairRatios& ratios) {
  return per_token(ratios.chosen, ratios.chosen_tokens)
      .sub(per_token(ratios.rejected, ratios.rejected_tokens));
}

/// KL divergence of the model's preference from the smoothed one.
at::Tensor exo_pair(const at::Tensor& margin, double smoothing) {
  const auto term = [](const at::Tensor& x, double log_wanted) {
    return at::sigmoid(x).mul(at::log_sigmoid(x).sub(log_wanted));
  };
  return term(margin, std::log1p(-smoothing)).add(term(margin.neg(), std::log(smoothing)));
}

}  // namespace

bool has_label_smoothing(DpoLoss type) {
  return type == DpoLoss::kSigmoid || type == DpoLoss::kRobust || type == DpoLoss::kExoPair;
}

at::Tensor dpo_losses(const PairRatios& ratios, const DpoLossOptions& options) {
  const double beta = options.beta, smoothing = options.label_smoothing;
  const at::Tensor margin = ratios.chosen.sub(ratios.rejected).mul(beta);
  const at::Tensor chosen = ratios.chosen.mul(beta), rejected = ratios.rejected.mul(beta);
  switch (options.type) {
    case DpoLoss::kSigmoid:
      if (smoothing == 0) return minus_log_sigmoid(margin);
      return minus_log_sigmoid(margin)
          .mul(1 - smoothing)
          .add(minus_log_sigmoid(margin.neg()).mul(smoothing));
    case DpoLoss::kSigmoidNorm:
      return minus_log_sigmoid(normalized_margin(ratios).mul(beta));
    case DpoLoss::kHinge:
      return margin.neg().add(1).relu();
    case DpoLoss::kIpo:
      return normalized_margin(ratios).sub(1 / (2 * beta)).square();
    case DpoLoss::kRobust:
      return minus_log_sigmoid(margin)
          .mul(1 - smoothing)
          .sub(minus_log_sigmoid(margin.neg()).mul(smoothing))
          .div(1 - 2 * smoothing);
    case DpoLoss::kExoPair:
      return exo_pair(margin, smoothing);
    case DpoLoss::kNcaPair:
      return minus_log_sigmoid(chosen)
          .add(minus_log_sigmoid(chosen.neg()).mul(0.5))
          .add(minus_log_sigmoid(rejected.neg()).mul(0.5));
    case DpoLoss::kBcoPair:
      return minus_log_sigmoid(chosen).add(minus_log_sigmoid(rejected.neg()));
    case DpoLoss::kSppoHard:
      return ratios.chosen.sub(0.5 / beta).square().add(ratios.rejected.add(0.5 / beta).square());
    case DpoLoss::kApoZero:
      return at::sigmoid(chosen).neg().add(1).add(at::sigmoid(rejected));
    case DpoLoss::kApoDown:
      return at::sigmoid(chosen).add(at::sigmoid(margin).neg().add(1));
  }
  throw std::logic_error("no such loss");
}

}  // namespace accel
