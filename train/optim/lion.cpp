// Lion: updates by the sign of the momentum (Chen et al., 2023).
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/_foreach_sign.h>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct LionOptions {
  double lr = 1e-4;
  std::vector<double> betas = {0.9, 0.99};
  double weight_decay = 0;
  bool maximize = false;
  ParameterGroups<LionOptions> groups;
  double layer_decay = 1;

  static Schema<LionOptions> hyper_schema() {
    return Schema<LionOptions>()
        .field("lr", &LionOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("betas", &LionOptions::betas,
               "Share of the momentum in the update's direction, and its decay rate.",
               two_decay_rates())
        .field("weight_decay", &LionOptions::weight_decay, kDecoupledDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("maximize", &LionOptions::maximize, kMaximizeHelp);
  }

  SlotNames slots() const { return {"exp_avg"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"betas", betas},
            {"weight_decay", weight_decay},
            {"maximize", maximize}};
  }
};

class Lion final : public OptimizerOf<LionOptions> {
 public:
  static constexpr auto kName = "lion";
  static constexpr auto kSummary =
      "Updates by the sign of the momentum, with half of Adam's memory.";

  static Schema<LionOptions> schema() { return with_groups(LionOptions::hyper_schema()); }

  Lion(const LionOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

  bool supports_shards() const override { return true; }

 private:
  void update(const LionOptions& options, GroupUpdate& work) override {
    std::vector<at::Tensor> gradients = work.gradients;
    if (options.maximize) gradients = at::_foreach_neg(gradients);
    std::vector<at::Tensor>& averages = work.slots[0];
    if (options.weight_decay != 0) {
      at::_foreach_mul_(work.parameters, 1 - work.lr * options.weight_decay);
    }
    std::vector<at::Tensor> direction = at::_foreach_mul(averages, options.betas[0]);
    at::_foreach_add_(direction, gradients, 1 - options.betas[0]);
    at::_foreach_sign_(direction);
    at::_foreach_add_(work.parameters, direction, -work.lr);
    at::_foreach_mul_(averages, options.betas[1]);
    at::_foreach_add_(averages, gradients, 1 - options.betas[1]);
  }
};

const Register<Lion> lion;

}  // namespace
}  // namespace accel
