// Stochastic gradient descent, to the last bit as torch.optim.SGD on the CPU. Steps that a device
// may skip are those of its fused=True.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <optional>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  ParameterGroups<SgdOptions> groups;
  double layer_decay = 1;

  static Schema<SgdOptions> hyper_schema() {
    return Schema<SgdOptions>()
        .field("lr", &SgdOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("momentum", &SgdOptions::momentum, "Share of the last update added to the next.",
               at_least(0.0))
        .field("dampening", &SgdOptions::dampening,
               "Reduces the gradient's share in the momentum by this factor.")
        .field("weight_decay", &SgdOptions::weight_decay, kWeightDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("nesterov", &SgdOptions::nesterov, "Nesterov momentum.")
        .field("maximize", &SgdOptions::maximize, kMaximizeHelp);
  }

  SlotNames slots() const {
    if (momentum == 0) return {};
    return {"momentum_buffer"};
  }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"momentum", momentum},
            {"dampening", dampening},
            {"weight_decay", weight_decay},
            {"nesterov", nesterov},
            {"maximize", maximize},
            {"foreach", std::monostate{}},
            {"differentiable", false},
            {"fused", std::monostate{}}};
  }
};

/// Nesterov momentum is defined without dampening only.
void check_nesterov(const SgdOptions& options, const Node& node, Reading& reading) {
  const auto check = [&](const SgdOptions& group, const Node& where) {
    if (!group.nesterov || (group.momentum > 0 && group.dampening == 0)) return;
    const Node::Entry* entry = where.find("nesterov");
    reading.problems.error(entry ? entry->node.where : where.where,
                           "'nesterov' needs a momentum above 0 and a dampening of 0");
  };
  check(options, node);
  for (const GroupOverride& group : options.groups.list) {
    check(with_changes(options, group), group.written);
  }
}

class Sgd final : public OptimizerOf<SgdOptions> {
 public:
  static constexpr auto kName = "sgd";
  static constexpr auto kSummary = "Stochastic gradient descent, optionally with momentum.";

  static Schema<SgdOptions> schema() {
    return with_groups(SgdOptions::hyper_schema()).check(&check_nesterov);
  }

  Sgd(const SgdOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context), has_kernel_(suit_kernel(context.parameters)) {}

  bool supports_shards() const override { return true; }

 private:
  /// The kernel that reads the flag takes dense tensors of one type.
  static bool suit_kernel(const std::vector<Parameter>& all) {
    return std::all_of(all.begin(), all.end(), [&](const Parameter& parameter) {
      return parameter.local.scalar_type() == all.front().local.scalar_type() &&
             parameter.local.is_non_overlapping_and_dense();
    });
  }

  bool reads_found_inf(size_t) const override { return has_kernel_; }

  at::Tensor fresh_slot(size_t, const std::string&, const Parameter&) const override {
    return {};  // the first gradient, undampened, becomes the buffer
  }

  void update(const SgdOptions& options, GroupUpdate& work) override {
    if (found_inf().defined() && has_kernel_) return update_unless_found(options, work);
    std::vector<at::Tensor> changed;
    const std::vector<at::Tensor>* steps = &work.gradients;
    const auto change = [&](std::vector<at::Tensor> to) {
      changed = std::move(to);
      steps = &changed;
    };
    if (options.maximize) change(at::_foreach_neg(*steps));
    if (options.weight_decay != 0) {
      change(at::_foreach_add(*steps, work.parameters, options.weight_decay));
    }
    if (options.momentum != 0) {
      std::vector<at::Tensor>& buffers = work.slots[0];
      gather_momentum(options, *steps, buffers);
      if (options.nesterov) {
        change(at::_foreach_add(*steps, buffers, options.momentum));
      } else {
        steps = &buffers;
      }
    }
    at::_foreach_add_(work.parameters, *steps, -work.lr);
  }

  struct FusedLists {
    std::vector<at::Tensor> parameters, gradients, buffers;
  };

  /// Buffers that were not there are zeros where the step is skipped.
  void update_unless_found(const SgdOptions& options, GroupUpdate& work) {
    std::array<FusedLists, 2> lists;  // by whether it is the first step of a buffer
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const bool is_first = options.momentum != 0 && !work.slots[0][i].defined();
      FusedLists& into = lists[is_first ? 1 : 0];
      into.parameters.push_back(work.parameters[i]);
      into.gradients.push_back(work.gradients[i]);
      if (options.momentum == 0) continue;
      at::Tensor& buffer = work.slots[0][i];
      if (is_first) buffer = at::zeros_like(work.gradients[i]);
      into.buffers.push_back(buffer);
    }
    for (const bool is_first : {false, true}) {
      const FusedLists& of = lists[is_first ? 1 : 0];
      if (of.parameters.empty()) continue;
      at::_fused_sgd_(of.parameters, of.gradients, of.buffers, options.weight_decay,
                      options.momentum, work.lr, options.dampening, options.nesterov,
                      options.maximize, is_first, /*grad_scale=*/std::nullopt, found_inf());
    }
  }

  static void gather_momentum(const SgdOptions& options, const std::vector<at::Tensor>& steps,
                              std::vector<at::Tensor>& buffers) {
    std::vector<at::Tensor> old_buffers, their_steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (buffers[i].defined()) {
        old_buffers.push_back(buffers[i]);
        their_steps.push_back(steps[i]);
      } else {
        buffers[i] = steps[i].clone();
      }
    }
    if (old_buffers.empty()) return;
    at::_foreach_mul_(old_buffers, options.momentum);
    at::_foreach_add_(old_buffers, their_steps, 1 - options.dampening);
  }

  bool has_kernel_;
};

const Register<Sgd> sgd;

}  // namespace
}  // namespace accel
