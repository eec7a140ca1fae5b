// Sophia-G: clipped updates by momentum and an estimated Hessian diagonal (Liu et al., 2023).
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hessian_estimate.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct SophiaOptions {
  double lr = 1e-4;
  std::vector<double> betas = {0.965, 0.99};
  double rho = 0.04;
  double eps = 1e-12;
  double weight_decay = 0.1;
  int64_t hessian_interval = 10;
  ParameterGroups<SophiaOptions> groups;
  double layer_decay = 1;

  static Schema<SophiaOptions> hyper_schema() {
    return Schema<SophiaOptions>()
        .field("lr", &SophiaOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("betas", &SophiaOptions::betas,
               "Decay rates of the running averages of the gradient and of the Hessian's diagonal.",
               two_decay_rates())
        .field("rho", &SophiaOptions::rho,
               "Curvature above which an element's update is not clipped to the learning rate. "
               "Lower clips fewer updates.",
               more_than(0.0))
        .hint_for({"gamma"})
        .field("eps", &SophiaOptions::eps, "The smallest denominator.", more_than(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &SophiaOptions::weight_decay, kDecoupledDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names());
  }
  static Schema<SophiaOptions> schema() {
    return with_groups(hyper_schema())
        .field("hessian_interval", &SophiaOptions::hessian_interval,
               "Steps between estimates of the Hessian, each a further forward and backward pass.",
               at_least<int64_t>(1))
        .hint_for({"hess_interval", "update_period", "k"});
  }

  SlotNames slots() const { return {"step", "exp_avg", "hessian"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"betas", betas},
            {"rho", rho},
            {"eps", eps},
            {"weight_decay", weight_decay}};
  }
};

class Sophia final : public OptimizerOf<SophiaOptions>, public UsesHessianEstimate {
 public:
  static constexpr auto kName = "sophia";
  static constexpr const char* kHintFor[] = {"sophia_g", "sophiag"};
  static constexpr auto kSummary =
      "Momentum divided by an estimate of the Hessian's diagonal, clipped element by element.";

  static Schema<SophiaOptions> schema() { return SophiaOptions::schema(); }

  Sophia(const SophiaOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context), interval_(options.hessian_interval) {}

  bool supports_shards() const override { return true; }

  bool wants_estimate(int64_t step) const override {
    return (step - 1) % interval_ == 0 && step != estimated_;
  }

  /// The Gauss-Newton-Bartlett estimate: the number of labels times the squared gradient.
  void update_hessian(int64_t step, double labels) override {
    visit_groups([&](size_t group, GroupUpdate& work) {
      const double beta2 = options(group).betas[1];
      at::_foreach_mul_(work.slots[2], beta2);
      at::_foreach_addcmul_(work.slots[2], work.gradients, work.gradients, (1 - beta2) * labels);
    });
    estimated_ = step;
  }

 private:
  void update(const SophiaOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    if (options.weight_decay != 0) {
      at::_foreach_mul_(work.parameters, 1 - work.lr * options.weight_decay);
    }
    std::vector<at::Tensor>& averages = work.slots[1];
    at::_foreach_mul_(averages, options.betas[0]);
    at::_foreach_add_(averages, work.gradients, 1 - options.betas[0]);
    std::vector<at::Tensor> divisors = at::_foreach_mul(work.slots[2], options.rho);
    at::_foreach_clamp_min_(divisors, options.eps);
    std::vector<at::Tensor> direction = at::_foreach_div(averages, divisors);
    at::_foreach_clamp_min_(direction, -1);
    at::_foreach_clamp_max_(direction, 1);
    at::_foreach_add_(work.parameters, direction, -work.lr);
  }

  int64_t interval_;
  int64_t estimated_ = 0;  ///< the step of the last estimate of this process
};

const Register<Sophia> sophia;

}  // namespace
}  // namespace accel
