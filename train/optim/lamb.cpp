// LAMB: Adam's updates scaled to the norm of each parameter (You et al., 2020).
#include <ATen/ops/stack.h>

#include <cmath>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"
#include "train/optim/update_scalars.h"

namespace accel {
namespace {

struct LambOptions {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool bias_correction = true;
  bool trust_clip = false;
  bool always_adapt = false;
  ParameterGroups<LambOptions> groups;
  double layer_decay = 1;

  static Schema<LambOptions> hyper_schema() {
    return Schema<LambOptions>()
        .field("lr", &LambOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("betas", &LambOptions::betas,
               "Decay rates of the running averages of the gradient and its square.",
               two_decay_rates())
        .hint_for({"adam_betas"})
        .field("eps", &LambOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &LambOptions::weight_decay,
               "Weight decay, added to the update before it is scaled.", at_least(0.0))
        .hint_for(weight_decay_names())
        .field("bias_correction", &LambOptions::bias_correction,
               "Correct the averages of early updates, as Adam does.")
        .field("trust_clip", &LambOptions::trust_clip,
               "Limit the scale of an update to 1 (LAMBC), which is more stable.")
        .field("always_adapt", &LambOptions::always_adapt,
               "Scale the updates of parameters without weight decay, too.");
  }

  SlotNames slots() const { return {"step", "exp_avg", "exp_avg_sq"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"betas", betas},
            {"eps", eps},
            {"weight_decay", weight_decay},
            {"bias_correction", bias_correction},
            {"trust_clip", trust_clip},
            {"always_adapt", always_adapt}};
  }
};

/// Sums of squares are in double, so that parts of a parameter on several ranks add up to the same.
class Lamb final : public OptimizerOf<LambOptions> {
 public:
  static constexpr auto kName = "lamb";
  static constexpr auto kSummary =
      "Adam's updates scaled to the norm of each parameter, for large batches.";

  static Schema<LambOptions> schema() { return with_groups(LambOptions::hyper_schema()); }

  Lamb(const LambOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

  bool supports_shards() const override { return true; }

 private:
  void update(const LambOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    const Corrections corrections = corrections_of(options, work.slots[0]);
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const at::Tensor& parameter = work.parameters[i];
      at::Tensor update = direction_of(options, work, i, corrections);
      if (options.weight_decay != 0) update.add_(parameter, options.weight_decay);
      if (options.weight_decay != 0 || options.always_adapt) {
        trust_ratio(options, *work.origins[i], parameter, update).scale_(update);
      }
      parameter.add_(update, -work.lr);
    }
  }

  /// Of both averages, for each parameter.
  struct Corrections {
    std::vector<UpdateScalar> averages, roots;
  };

  static Corrections corrections_of(const LambOptions& options,
                                    const std::vector<at::Tensor>& step_counts) {
    if (!options.bias_correction) {
      const std::vector<UpdateScalar> ones(step_counts.size(), UpdateScalar(1.0));
      return {ones, ones};
    }
    const UpdateScalars steps(step_counts);
    return {bias_corrections(steps, options.betas[0]).list(),
            bias_corrections(steps, options.betas[1]).sqrt().list()};
  }

  static at::Tensor direction_of(const LambOptions& options, const GroupUpdate& work, size_t i,
                                 const Corrections& corrections) {
    const at::Tensor &average = work.slots[1][i], &squares = work.slots[2][i];
    const at::Tensor& gradient = work.gradients[i];
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    average.lerp_(gradient, 1 - beta1);
    squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const at::Tensor divisor = corrections.roots[i].divide(squares.sqrt()).add_(options.eps);
    return corrections.averages[i].divide(average).div_(divisor);
  }

  /// The norm of the parameter divided by that of its update; 1 where one of them is 0.
  UpdateScalar trust_ratio(const LambOptions& options, const Parameter& origin,
                           const at::Tensor& parameter, const at::Tensor& update) const {
    const at::Tensor sums = at::stack(
        {parameter.to(at::kDouble).square().sum(), update.to(at::kDouble).square().sum()});
    if (!origin.is_replicated()) shards()->all_reduce(sums, Reduce::kSum, origin);
    if (!sums.is_cpu()) return ratio_on_device(options, sums.sqrt());
    const double weights = std::sqrt(sums[0].item().toDouble());
    const double updates = std::sqrt(sums[1].item().toDouble());
    const double ratio = weights > 0 && updates > 0 ? weights / updates : 1;
    return UpdateScalar(options.trust_clip ? std::min(ratio, 1.0) : ratio);
  }

  static UpdateScalar ratio_on_device(const LambOptions& options, const at::Tensor& norms) {
    const at::Tensor ratio = norms[0].div(norms[1]);
    ratio.masked_fill_(norms.gt(0).all().logical_not(), 1);
    return UpdateScalar(options.trust_clip ? ratio.clamp_max(1.0) : ratio);
  }
};

const Register<Lamb> lamb;

}  // namespace
}  // namespace accel
