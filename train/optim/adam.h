// Adam and AdamW, which differ in their weight decay.
#pragma once

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {

/// PyTorch's names and defaults. `kDecoupled` is AdamW.
template <bool kDecoupled>
struct AdamOptions {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = kDecoupled ? 1e-2 : 0.0;
  bool amsgrad = false;
  bool maximize = false;
  bool fused = true;
  ParameterGroups<AdamOptions> groups;
  double layer_decay = 1;

  static Schema<AdamOptions> hyper_schema() {
    return Schema<AdamOptions>()
        .field("lr", &AdamOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("betas", &AdamOptions::betas,
               "Decay rates of the running averages of the gradient and its square.",
               two_decay_rates())
        .hint_for({"adam_betas"})
        .hint_for({"adam_beta1", "beta1", "beta_1"}, "[{}, 0.999]")
        .hint_for({"adam_beta2", "beta2", "beta_2"}, "[0.9, {}]")
        .field("eps", &AdamOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &AdamOptions::weight_decay,
               kDecoupled ? kDecoupledDecayHelp : kWeightDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("amsgrad", &AdamOptions::amsgrad,
               "Divide by the maximum of past averages (AMSGrad).")
        .field("maximize", &AdamOptions::maximize, kMaximizeHelp)
        .field("fused", &AdamOptions::fused,
               "One kernel for all parameters, as PyTorch's fused=True; false rounds as PyTorch's "
               "default and is slower.");
  }
  static Schema<AdamOptions> schema() { return with_groups(hyper_schema()); }

  SlotNames slots() const {
    SlotNames names = {"step", "exp_avg", "exp_avg_sq"};
    if (amsgrad) names.push_back("max_exp_avg_sq");
    return names;
  }
  Hyper hyper(double current_lr) const;
};
using AdamWOptions = AdamOptions<true>;

/// One fused kernel per group (kernels/adam.h), or tensor by tensor, bit-identical to torch.optim's
/// default on the CPU.
template <bool kDecoupled>
class AdamFamily : public OptimizerOf<AdamOptions<kDecoupled>> {
 public:
  AdamFamily(const AdamOptions<kDecoupled>& options, const OptimizerContext& context)
      : OptimizerOf<AdamOptions<kDecoupled>>(options, context) {}

  bool supports_shards() const override { return true; }

 private:
  bool reads_found_inf(size_t group) const override { return this->options(group).fused; }
  void update(const AdamOptions<kDecoupled>& options, GroupUpdate& work) override;
};

extern template struct AdamOptions<false>;
extern template struct AdamOptions<true>;
extern template class AdamFamily<false>;
extern template class AdamFamily<true>;

}  // namespace accel
