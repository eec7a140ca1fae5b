#include "train/tasks/grpo_metrics.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/nanmean.h>

#include <cmath>

#include "train/tasks/grpo_losses.h"

namespace accel {
namespace {

/// Standard deviations below it count as none, as for torch.isclose().
constexpr double kZeroStd = 1e-8;

void log_finite(const std::string& name, const at::Tensor& value, StepContext& context) {
  const auto number = value.item<double>();
  if (std::isfinite(number)) context.log(name, number);
}

}  // namespace

GatheredRollouts gather_rollouts(StepContext& context, const std::vector<Rollouts>& own,
                                 int64_t group) {
  std::vector<at::Tensor> rows;
  for (const Rollouts& rollouts : own) {
    const at::Tensor columns = at::cat(
        {rollouts.rewards, rollouts.lengths.unsqueeze(1), rollouts.truncated.unsqueeze(1)}, 1);
    rows.push_back(columns.view({-1, group * columns.size(1)}).to(rollouts.mask.device()));
  }
  const at::Tensor all = context.gather_for_metrics(rows).to(at::kCPU);
  const at::Tensor by_row = all.view({all.size(0) * group, all.size(1) / group});
  const int64_t functions = by_row.size(1) - 2;
  return {by_row.narrow(1, 0, functions), by_row.select(1, functions),
          by_row.select(1, functions + 1)};
}

void log_rewards(const GatheredRollouts& all, const at::Tensor& weighted, int64_t group,
                 const std::vector<std::string>& names, StepContext& context) {
  for (size_t k = 0; k < names.size(); ++k) {
    const at::Tensor values = all.rewards.select(1, static_cast<int64_t>(k));
    log_finite("rewards/" + names[k] + "/mean", at::nanmean(values), context);
    log_finite("rewards/" + names[k] + "/std", nan_std(values), context);
  }
  log_finite("reward", at::nanmean(weighted), context);
  log_finite("reward_std", nan_std(weighted), context);
  const at::Tensor is_zero = nan_std(weighted.view({-1, group})).lt(kZeroStd);
  context.log("frac_reward_zero_std", is_zero.to(at::kDouble).mean().item<double>());
}

void log_completions(const GatheredRollouts& all, StepContext& context) {
  context.log("completions/mean_length", all.lengths.mean().item<double>());
  context.log("completions/min_length", all.lengths.min().item<double>());
  context.log("completions/max_length", all.lengths.max().item<double>());
  context.log("completions/clipped_ratio", all.truncated.mean().item<double>());
  const at::Tensor ended = all.truncated.neg().add(1);
  log_finite("completions/mean_terminated_length", all.lengths.mul(ended).sum().div(ended.sum()),
             context);
}

}  // namespace accel
