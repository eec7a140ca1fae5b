// RMSprop, to the last bit as torch.optim.RMSprop on the CPU.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/_foreach_sqrt.h>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
  ParameterGroups<RmspropOptions> groups;
  double layer_decay = 1;

  static Schema<RmspropOptions> hyper_schema() {
    return Schema<RmspropOptions>()
        .field("lr", &RmspropOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("alpha", &RmspropOptions::alpha,
               "Decay rate of the running average of squared gradients.", at_least(0.0))
        .field("eps", &RmspropOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &RmspropOptions::weight_decay, kWeightDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("momentum", &RmspropOptions::momentum, "Share of the last update added to the next.",
               at_least(0.0))
        .field("centered", &RmspropOptions::centered,
               "Divide by the standard deviation of gradients instead.")
        .field("maximize", &RmspropOptions::maximize, kMaximizeHelp);
  }

  SlotNames slots() const {
    SlotNames names = {"step", "square_avg"};
    if (momentum > 0) names.push_back("momentum_buffer");
    if (centered) names.push_back("grad_avg");
    return names;
  }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},     {"momentum", momentum},
            {"alpha", alpha},       {"eps", eps},
            {"centered", centered}, {"weight_decay", weight_decay},
            {"capturable", false},  {"foreach", std::monostate{}},
            {"maximize", maximize}, {"differentiable", false}};
  }
};

class Rmsprop final : public OptimizerOf<RmspropOptions> {
 public:
  static constexpr auto kName = "rmsprop";
  static constexpr auto kSummary = "Gradients divided by the root of their running mean square.";

  static Schema<RmspropOptions> schema() { return with_groups(RmspropOptions::hyper_schema()); }

  Rmsprop(const RmspropOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

  bool supports_shards() const override { return true; }

 private:
  void update(const RmspropOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    std::vector<at::Tensor> gradients = work.gradients;
    if (options.maximize) gradients = at::_foreach_neg(gradients);
    if (options.weight_decay != 0) {
      gradients = at::_foreach_add(gradients, work.parameters, options.weight_decay);
    }
    const std::vector<at::Tensor> divisors = root_mean_squares(options, gradients, work);
    if (options.momentum > 0) {
      std::vector<at::Tensor>& buffers = work.slots[2];
      at::_foreach_mul_(buffers, options.momentum);
      at::_foreach_addcdiv_(buffers, gradients, divisors);
      at::_foreach_add_(work.parameters, buffers, -work.lr);
    } else {
      at::_foreach_addcdiv_(work.parameters, gradients, divisors, -work.lr);
    }
  }

  static std::vector<at::Tensor> root_mean_squares(const RmspropOptions& options,
                                                   const std::vector<at::Tensor>& gradients,
                                                   GroupUpdate& work) {
    std::vector<at::Tensor>& squares = work.slots[1];
    at::_foreach_mul_(squares, options.alpha);
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - options.alpha);
    std::vector<at::Tensor> roots;
    if (options.centered) {
      std::vector<at::Tensor>& means = work.slots.back();
      at::_foreach_lerp_(means, gradients, 1 - options.alpha);
      roots = at::_foreach_addcmul(squares, means, means, -1);
      at::_foreach_sqrt_(roots);
    } else {
      roots = at::_foreach_sqrt(squares);
    }
    at::_foreach_add_(roots, options.eps);
    return roots;
  }
};

const Register<Rmsprop> rmsprop;

}  // namespace
}  // namespace accel
