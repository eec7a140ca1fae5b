// Schedule-free AdamW (Defazio et al., 2024), as the package schedulefree.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "train/optim/evaluation_weights.h"
#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct ScheduleFreeOptions {
  double lr = 0.0025;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t warmup_steps = 0;
  double r = 0;
  double weight_lr_power = 2;
  ParameterGroups<ScheduleFreeOptions> groups;
  double layer_decay = 1;

  static Schema<ScheduleFreeOptions> hyper_schema() {
    return Schema<ScheduleFreeOptions>()
        .field(
            "lr", &ScheduleFreeOptions::lr,
            "Learning rate, constant after warm-up. One to ten times that of a decayed schedule.",
            at_least(0.0))
        .hint_for(lr_names())
        .field(
            "betas", &ScheduleFreeOptions::betas,
            "Interpolation between the average and the base iterate at which gradients are "
            "taken, above 0, and the decay rate of squared gradients.",
            Rule<std::vector<double>>{
                [](const std::vector<double>& v) { return two_decay_rates().holds(v) && v[0] > 0; },
                "two numbers in [0, 1), the first above 0", two_decay_rates().json})
        .hint_for({"adam_betas"})
        .field("eps", &ScheduleFreeOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &ScheduleFreeOptions::weight_decay, kDecoupledDecayHelp,
               at_least(0.0))
        .hint_for(weight_decay_names())
        .field("warmup_steps", &ScheduleFreeOptions::warmup_steps,
               "Steps of linear warm-up, which also weighs the average; use it instead of the "
               "scheduler's.",
               at_least<int64_t>(0))
        .field("r", &ScheduleFreeOptions::r,
               "Power of the step in the weights of the average. Higher prefers late steps.",
               at_least(0.0))
        .field("weight_lr_power", &ScheduleFreeOptions::weight_lr_power,
               "Power of the learning rate in the weights of the average. 0: no weighting.",
               at_least(0.0));
  }

  SlotNames slots() const { return {"z", "exp_avg_sq"}; }
  Hyper hyper(double current_lr) const;
};

Hyper ScheduleFreeOptions::hyper(double current_lr) const {
  return {{"lr", current_lr},
          {"betas", betas},
          {"eps", eps},
          {"r", r},
          {"warmup_steps", warmup_steps},
          {"train_mode", false},  // the saved weights are those of evaluations
          {"weight_lr_power", weight_lr_power},
          {"weight_decay", weight_decay},
          {"foreach", true}};
}

/// Slot of the training weights in saved states. In memory they are the parameters.
constexpr auto kTrainingWeights = "y";

/// The weights are y, an interpolation of the base iterate z and the average x of its past, with
/// which evaluations are made: x = y + (1 - 1/beta1) (z - y).
class ScheduleFreeAdamW final : public OptimizerOf<ScheduleFreeOptions>, public EvaluationWeights {
 public:
  static constexpr auto kName = "schedule_free_adamw";
  static constexpr const char* kHintFor[] = {"schedulefree", "schedule_free", "adamw_schedulefree",
                                             "adamw_schedule_free"};
  static constexpr auto kSummary =
      "AdamW that averages weights in place of a decaying schedule: needs no length of the run.";

  static Schema<ScheduleFreeOptions> schema() {
    return with_groups(ScheduleFreeOptions::hyper_schema());
  }

  ScheduleFreeAdamW(const ScheduleFreeOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context), averages_(num_groups()) {}

  bool supports_shards() const override { return true; }
  bool supports_swapping() const override { return false; }
  void forget_skipped(int64_t count) override {
    averages_ = last_averages_.at(static_cast<size_t>(count - 1));
  }

  OptimizerState state() const override;
  void load(const OptimizerState& state) override;
  void swap_in_evaluation_weights() override;
  void restore_training_weights() override;
  std::vector<Parameter> evaluation_weights() const override;

 private:
  /// State of a group's average, under the package's names.
  struct Average {
    int64_t k = 0;  ///< updates
    double weight_sum = 0;
    double lr_max = -1;
    double scheduled_lr = 0;
    double share = 0;  ///< of z in the average, in this step
  };

  void begin_step() override {
    last_averages_[1] = std::exchange(last_averages_[0], averages_);
    for (size_t g = 0; g < averages_.size(); ++g) advance(g, lr_of(g));
  }
  /// z begins with the weights of the first update, which the update copies.
  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const Parameter& parameter) const override {
    const bool later = slot == "z" && !parameter.local.is_meta();
    return later ? at::Tensor() : OptimizerOf::fresh_slot(group, slot, parameter);
  }
  void update_group(size_t group, GroupUpdate& work) override;
  void update(const ScheduleFreeOptions&, GroupUpdate&) override {}
  Hyper group_hyper(size_t group, double lr) const override;
  void load_hyper(size_t group, const Hyper& saved) override;
  void advance(size_t group, double lr);

  /// Calls `visit(weights, z, beta1)` of each parameter that has been updated.
  template <class Visit>
  void each_average(const Visit& visit) const;

  std::vector<Average> averages_;
  std::array<std::vector<Average>, 2> last_averages_;  ///< before the last step and that before it
  std::vector<std::pair<at::Tensor, at::Tensor>> swapped_;  ///< parameters and their y
};

void ScheduleFreeAdamW::advance(size_t group, double lr) {
  const ScheduleFreeOptions& own = options(group);
  Average& average = averages_[group];
  const auto number = static_cast<double>(average.k + 1);
  const bool warms = average.k < own.warmup_steps;
  average.scheduled_lr = lr * (warms ? number / static_cast<double>(own.warmup_steps) : 1.0);
  average.lr_max = std::max(average.scheduled_lr, average.lr_max);
  const double weight = std::pow(number, own.r) * std::pow(average.lr_max, own.weight_lr_power);
  average.weight_sum += weight;
  average.share = average.weight_sum == 0 ? 0 : weight / average.weight_sum;
  ++average.k;
}

void ScheduleFreeAdamW::update_group(size_t group, GroupUpdate& work) {
  const ScheduleFreeOptions& own = options(group);
  const Average& average = averages_[group];
  const double beta1 = own.betas[0], beta2 = own.betas[1], lr = average.scheduled_lr;
  std::vector<at::Tensor>&z = work.slots[0], &squares = work.slots[1];
  for (size_t i = 0; i < z.size(); ++i) {
    if (!z[i].defined()) z[i] = work.parameters[i].detach().clone();
  }
  at::_foreach_mul_(squares, beta2);
  at::_foreach_addcmul_(squares, work.gradients, work.gradients, 1 - beta2);
  const double correction = 1 - std::pow(beta2, static_cast<double>(average.k));
  std::vector<at::Tensor> divisor = at::_foreach_div(squares, correction);
  at::_foreach_sqrt_(divisor);
  at::_foreach_add_(divisor, own.eps);
  std::vector<at::Tensor> update = at::_foreach_div(work.gradients, divisor);
  if (own.weight_decay != 0) at::_foreach_add_(update, work.parameters, own.weight_decay);
  at::_foreach_lerp_(work.parameters, z, average.share);
  at::_foreach_add_(work.parameters, update, lr * (beta1 * (1 - average.share) - 1));
  at::_foreach_sub_(z, update, lr);
}

Hyper ScheduleFreeAdamW::group_hyper(size_t group, double lr) const {
  const Average& average = averages_[group];
  Hyper hyper = options(group).hyper(lr);
  hyper.emplace_back("k", average.k);
  hyper.emplace_back("weight_sum", average.weight_sum);
  hyper.emplace_back("lr_max", average.lr_max);
  hyper.emplace_back("scheduled_lr", average.scheduled_lr);
  return hyper;
}

void ScheduleFreeAdamW::load_hyper(size_t group, const Hyper& saved) {
  const auto number = [&](const char* name) {
    for (const auto& [key, value] : saved) {
      if (key != name) continue;
      if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
      if (const auto* real = std::get_if<double>(&value)) return *real;
    }
    throw CheckpointError(
        text("the state of 'schedule_free_adamw' has no '{}' in group {}", name, group));
  };
  Average& average = averages_[group];
  average.k = static_cast<int64_t>(number("k"));
  average.weight_sum = number("weight_sum");
  average.lr_max = number("lr_max");
  average.scheduled_lr = number("scheduled_lr");
}

template <class Visit>
void ScheduleFreeAdamW::each_average(const Visit& visit) const {
  const OptimizerState saved = GroupedOptimizer::state();
  const std::vector<Parameter> all = parameters();
  size_t next = 0;
  for (size_t g = 0; g < saved.groups.size(); ++g) {
    for (const OptimizerState::ParameterState& item : saved.groups[g].parameters) {
      const Parameter& parameter = all[next++];
      if (!item.slots.empty()) visit(parameter, item.slots[0].local, options(g).betas[0]);
    }
  }
}

OptimizerState ScheduleFreeAdamW::state() const {
  OptimizerState state = GroupedOptimizer::state();
  const std::vector<Parameter> all = parameters();
  size_t next = 0;
  for (OptimizerState::Group& group : state.groups) {
    for (OptimizerState::ParameterState& item : group.parameters) {
      Parameter weights = all[next++];
      if (item.slots.empty()) continue;
      for (const auto& [parameter, y] : swapped_) {
        if (parameter.is_same(weights.local)) weights.local = y;
      }
      weights.name = kTrainingWeights;
      weights.local = weights.local.detach();
      item.slots.push_back(std::move(weights));
    }
  }
  return state;
}

void ScheduleFreeAdamW::load(const OptimizerState& state) {
  OptimizerState slots = state;
  std::vector<at::Tensor> training;  // undefined: derived from the loaded weights, which are x
  const std::vector<Parameter> all = parameters();
  for (OptimizerState::Group& group : slots.groups) {
    const bool is_x =
        std::find(group.hyper.begin(), group.hyper.end(),
                  std::pair<std::string, HyperValue>("train_mode", true)) == group.hyper.end();
    for (OptimizerState::ParameterState& item : group.parameters) {
      training.emplace_back();
      // A script of the package that saved without eval() left y in the model.
      if (!is_x && training.size() <= all.size()) training.back() = all[training.size() - 1].local;
      std::erase_if(item.slots, [&](const Parameter& slot) {
        if (slot.name != kTrainingWeights) return false;
        training.back() = slot.local;
        return true;
      });
    }
  }
  GroupedOptimizer::load(slots);
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!training[i].defined()) continue;
    if (training[i].sizes() != all[i].local.sizes()) {
      throw CheckpointError(
          text("the optimizer's state has 'y' of shape {} for '{}', which needs {}",
               shape_text(training[i]), all[i].name, shape_text(all[i].local)));
    }
    all[i].local.copy_(training[i]);
  }
  each_average([&](const Parameter& parameter, const at::Tensor& z, double beta1) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const Parameter& item) {
      return item.local.is_same(parameter.local);
    });
    const bool known = training[static_cast<size_t>(at - all.begin())].defined();
    if (!known) parameter.local.lerp_(z, 1 - beta1);
  });
}

std::vector<Parameter> ScheduleFreeAdamW::evaluation_weights() const {
  const c10::NoGradGuard no_grad;
  std::vector<Parameter> out;
  each_average([&](Parameter parameter, const at::Tensor& z, double beta1) {
    parameter.local = parameter.local.lerp(z, 1 - 1 / beta1);
    out.push_back(std::move(parameter));
  });
  return out;
}

void ScheduleFreeAdamW::swap_in_evaluation_weights() {
  const c10::NoGradGuard no_grad;
  each_average([&](const Parameter& parameter, const at::Tensor& z, double beta1) {
    swapped_.emplace_back(parameter.local, parameter.local.detach().clone());
    parameter.local.lerp_(z, 1 - 1 / beta1);
  });
}

void ScheduleFreeAdamW::restore_training_weights() {
  const c10::NoGradGuard no_grad;
  for (const auto& [parameter, y] : swapped_) parameter.copy_(y);
  swapped_.clear();
}

const Register<ScheduleFreeAdamW> schedule_free_adamw;

}  // namespace
}  // namespace accel
