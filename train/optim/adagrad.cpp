// Adagrad: per-weight learning rates that decay with the sum of squared gradients.
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/full_like.h>

#include <optional>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  ParameterGroups<AdagradOptions> groups;
  double layer_decay = 1;

  static Schema<AdagradOptions> hyper_schema() {
    return Schema<AdagradOptions>()
        .field("lr", &AdagradOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("lr_decay", &AdagradOptions::lr_decay,
               "Divides the learning rate by 1 + lr_decay * updates.", at_least(0.0))
        .field("weight_decay", &AdagradOptions::weight_decay, kWeightDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("initial_accumulator_value", &AdagradOptions::initial_accumulator_value,
               "Initial sum of squared gradients.", at_least(0.0))
        .field("eps", &AdagradOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("maximize", &AdagradOptions::maximize, kMaximizeHelp);
  }

  SlotNames slots() const { return {"step", "sum"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"lr_decay", lr_decay},
            {"eps", eps},
            {"weight_decay", weight_decay},
            {"initial_accumulator_value", initial_accumulator_value},
            {"foreach", std::monostate{}},
            {"maximize", maximize},
            {"differentiable", false},
            {"fused", std::monostate{}}};
  }
};

class Adagrad final : public OptimizerOf<AdagradOptions> {
 public:
  static constexpr auto kName = "adagrad";
  static constexpr auto kSummary =
      "Per-weight learning rates that decay with the sum of squared gradients.";

  static Schema<AdagradOptions> schema() { return with_groups(AdagradOptions::hyper_schema()); }

  Adagrad(const AdagradOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {
    make_slots();  // as PyTorch's state before the first step
  }

  bool supports_shards() const override { return true; }

 private:
  bool reads_found_inf(size_t) const override { return true; }
  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const Parameter& parameter) const override {
    if (slot != "sum") return OptimizerOf::fresh_slot(group, slot, parameter);
    return at::full_like(parameter.local, options(group).initial_accumulator_value,
                         parameter.local.options().requires_grad(false));
  }

  void update(const AdagradOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    std::optional<at::Tensor> skip;
    if (found_inf().defined()) skip = found_inf();
    at::_fused_adagrad_(work.parameters, work.gradients, work.slots[1], work.slots[0], work.lr,
                        options.lr_decay, options.weight_decay, options.eps, options.maximize,
                        /*grad_scale=*/std::nullopt, skip);
  }
};

const Register<Adagrad> adagrad;

}  // namespace
}  // namespace accel
