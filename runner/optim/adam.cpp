#include "runner/optim/adam.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

namespace accel {

template <bool kDecoupled>
Hyper AdamOptions<kDecoupled>::hyper(double current_lr) const {
  return {{"lr", current_lr},
          {"betas", betas},
          {"eps", eps},
          {"weight_decay", weight_decay},
          {"amsgrad", amsgrad},
          {"maximize", maximize},
          {"foreach", std::monostate{}},
          {"capturable", false},
          {"differentiable", false},
          {"fused", std::monostate{}},
          {"decoupled_weight_decay", kDecoupled}};
}

template <bool kDecoupled>
void AdamFamily<kDecoupled>::update(const AdamOptions<kDecoupled>& options, GroupUpdate& work) {
  const std::vector<at::Tensor> none;
  const std::vector<at::Tensor>& largest = options.amsgrad ? work.slots[3] : none;
  at::_foreach_add_(work.slots[0], 1);
  const auto run = [&](auto kernel) {
    kernel(work.parameters, work.gradients, work.slots[1], work.slots[2], largest, work.slots[0],
           work.lr, options.betas[0], options.betas[1], options.weight_decay, options.eps,
           options.amsgrad, options.maximize);
  };
  if constexpr (kDecoupled) {
    run([](auto&&... args) { at::_fused_adamw_(args...); });
  } else {
    run([](auto&&... args) { at::_fused_adam_(args...); });
  }
}

template struct AdamOptions<false>;
template struct AdamOptions<true>;
template class AdamFamily<false>;
template class AdamFamily<true>;

namespace {

class Adam final : public AdamFamily<false> {
 public:
  static constexpr auto kName = "adam";
  static constexpr auto kSummary = "Steps scaled by running averages of each gradient.";
  static Schema<AdamOptions<false>> schema() { return AdamOptions<false>::schema(); }
  using AdamFamily::AdamFamily;
};

class AdamW final : public AdamFamily<true> {
 public:
  static constexpr auto kName = "adamw";
  static constexpr auto kSummary = "Adam with weight decay apart from the gradient.";
  static Schema<AdamWOptions> schema() { return AdamWOptions::schema(); }
  using AdamFamily::AdamFamily;
};

const Register<Adam> adam;
const Register<AdamW> adamw;

}  // namespace
}  // namespace accel
