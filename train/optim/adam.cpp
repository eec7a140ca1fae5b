#include "train/optim/adam.h"

#include "kernels/adam.h"
#include "train/optim/update_scalars.h"

namespace accel {
namespace {

/// The operations of torch.optim's single-tensor path, in its order.
template <bool kDecoupled>
void update_one(const AdamOptions<kDecoupled>& options, const GroupUpdate& work, size_t i,
                const AdamCorrections& corrections) {
  const at::Tensor& parameter = work.parameters[i];
  const at::Tensor &average = work.slots[1][i], &squares = work.slots[2][i];
  const double beta1 = options.betas[0], beta2 = options.betas[1];
  at::Tensor gradient = options.maximize ? work.gradients[i].neg() : work.gradients[i];
  if (options.weight_decay != 0) {
    if (kDecoupled) {
      parameter.mul_(1 - work.lr * options.weight_decay);
    } else {
      gradient = gradient.add(parameter, options.weight_decay);
    }
  }
  average.lerp_(gradient, 1 - beta1);
  squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  at::Tensor divisor = squares;
  if (options.amsgrad) {
    divisor = work.slots[3][i];
    divisor.copy_(divisor.maximum(squares));
  }
  divisor = corrections.roots[i].divide(divisor.sqrt()).add_(options.eps);
  corrections.steps[i].addcdiv_(parameter, average, divisor);
}

template <bool kDecoupled>
void update_each(const AdamOptions<kDecoupled>& options, const GroupUpdate& work) {
  const AdamCorrections corrections(work.slots[0], options.betas, work.lr);
  for (size_t i = 0; i < work.parameters.size(); ++i) update_one(options, work, i, corrections);
}

}  // namespace

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
          {"fused", fused ? HyperValue(true) : HyperValue(std::monostate{})},
          {"decoupled_weight_decay", kDecoupled}};
}

template <bool kDecoupled>
void AdamFamily<kDecoupled>::update(const AdamOptions<kDecoupled>& options, GroupUpdate& work) {
  const std::vector<at::Tensor> none;
  const std::vector<at::Tensor>& largest = options.amsgrad ? work.slots[3] : none;
  count_update(work.slots[0]);
  if (!options.fused) return update_each(options, work);
  adam_step_({.lr = work.lr,
              .beta1 = options.betas[0],
              .beta2 = options.betas[1],
              .eps = options.eps,
              .weight_decay = options.weight_decay,
              .decoupled = kDecoupled,
              .amsgrad = options.amsgrad,
              .maximize = options.maximize},
             {.parameters = work.parameters,
              .gradients = work.gradients,
              .averages = work.slots[1],
              .squares = work.slots[2],
              .largest_squares = largest,
              .steps = work.slots[0],
              .found_inf = this->found_inf()});
}

template struct AdamOptions<false>;
template struct AdamOptions<true>;
template class AdamFamily<false>;
template class AdamFamily<true>;

namespace {

class Adam final : public AdamFamily<false> {
 public:
  static constexpr auto kName = "adam";
  static constexpr auto kSummary =
      "Updates scaled by running averages of gradients and their squares.";
  static Schema<AdamOptions<false>> schema() { return AdamOptions<false>::schema(); }
  using AdamFamily::AdamFamily;
};

class AdamW final : public AdamFamily<true> {
 public:
  static constexpr auto kName = "adamw";
  static constexpr const char* kHintFor[] = {"adamw_torch", "adamw_torch_fused", "adamw_hf"};
  static constexpr auto kSummary = "Adam with decoupled weight decay.";
  static Schema<AdamWOptions> schema() { return AdamWOptions::schema(); }
  using AdamFamily::AdamFamily;
};

const Register<Adam> adam;
const Register<AdamW> adamw;

}  // namespace
}  // namespace accel
