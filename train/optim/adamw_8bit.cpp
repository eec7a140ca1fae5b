// AdamW with 8-bit state (Dettmers et al., 2022), as bitsandbytes' AdamW8bit.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "core/recipe/name_pattern.h"
#include "kernels/blockwise_quantization.h"
#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct AdamW8BitOptions {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  int64_t min_8bit_size = 4096;
  std::vector<std::string> exclude = {"*embed*", "*wte.*", "*wpe.*"};
  ParameterGroups<AdamW8BitOptions> groups;
  double layer_decay = 1;

  static Schema<AdamW8BitOptions> hyper_schema() {
    return Schema<AdamW8BitOptions>()
        .field("lr", &AdamW8BitOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("betas", &AdamW8BitOptions::betas,
               "Decay rates of the running averages of the gradient and its square.",
               two_decay_rates())
        .hint_for({"adam_betas"})
        .field("eps", &AdamW8BitOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &AdamW8BitOptions::weight_decay, kDecoupledDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("min_8bit_size", &AdamW8BitOptions::min_8bit_size,
               "Parameters with fewer elements keep state in 32 bits.", at_least<int64_t>(0))
        .field("exclude", &AdamW8BitOptions::exclude,
               "Name patterns of parameters whose state stays in 32 bits: embeddings, whose "
               "gradients differ most between elements.");
  }

  /// Under bitsandbytes' names. The maps are constants, saved for its checkpoints.
  SlotNames slots() const {
    return {"step", "state1", "state2", "absmax1", "absmax2", "qmap1", "qmap2"};
  }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"betas", betas},
            {"eps", eps},
            {"weight_decay", weight_decay},
            {"alpha", 0.0},
            {"t_alpha", std::monostate{}},
            {"t_beta3", std::monostate{}}};
  }

  bool is_quantized(const Parameter& parameter) const {
    return parameter.numel() >= min_8bit_size &&
           std::none_of(exclude.begin(), exclude.end(), [&](const std::string& pattern) {
             return name_matches(pattern, parameter.name);
           });
  }
};

/// Blocks run over a whole parameter, so parameters cannot be sharded.
class AdamW8Bit final : public OptimizerOf<AdamW8BitOptions> {
 public:
  static constexpr auto kName = "adamw_8bit";
  static constexpr const char* kHintFor[] = {"adamw_bnb_8bit", "adamw8bit", "adam8bit",
                                             "adamw_torch_8bit", "paged_adamw_8bit"};
  static constexpr auto kSummary = "AdamW with block-wise 8-bit state: a quarter of its memory.";

  static Schema<AdamW8BitOptions> schema() { return with_groups(AdamW8BitOptions::hyper_schema()); }

  AdamW8Bit(const AdamW8BitOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

 private:
  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const Parameter& parameter) const override {
    if (slot == "step") return OptimizerOf::fresh_slot(group, slot, parameter);
    const bool quantized = options(group).is_quantized(parameter);
    const auto type = parameter.local.options().requires_grad(false);
    if (slot.starts_with("state")) {
      return at::zeros(parameter.local.sizes(), type.dtype(quantized ? at::kByte : at::kFloat));
    }
    if (!quantized) return {};
    if (slot.starts_with("qmap")) {
      return dynamic_map(/*is_signed=*/slot == "qmap1").to(parameter.local.device());
    }
    return at::zeros({num_quantization_blocks(parameter.local.numel())}, type.dtype(at::kFloat));
  }

  void update(const AdamW8BitOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    for (size_t i = 0; i < work.parameters.size(); ++i) update_one(options, work, i);
  }

  static void update_one(const AdamW8BitOptions& options, const GroupUpdate& work, size_t i) {
    const QuantizedTensor first = {work.slots[1][i], work.slots[3][i], work.slots[5][i]};
    const QuantizedTensor second = {work.slots[2][i], work.slots[4][i], work.slots[6][i]};
    const bool quantized = first.map.defined();
    const at::Tensor gradient = work.gradients[i].to(at::kFloat);
    const at::Tensor average = quantized ? dequantize(first) : first.codes;
    const at::Tensor squares = quantized ? dequantize(second) : second.codes;
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    average.mul_(beta1).add_(gradient, 1 - beta1);
    squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const double step = work.slots[0][i].item().toDouble();
    const double correction1 = 1 - std::pow(beta1, step);
    const double correction2 = std::sqrt(1 - std::pow(beta2, step));
    const at::Tensor divisor = squares.sqrt().div_(correction2).add_(options.eps);
    const at::Tensor& parameter = work.parameters[i];
    at::Tensor weights = parameter.to(at::kFloat);
    weights.mul_(1 - work.lr * options.weight_decay);
    weights.addcdiv_(average, divisor, -work.lr / correction1);
    if (!weights.is_same(parameter)) parameter.copy_(weights);
    if (!quantized) return;
    quantize(average, first);
    quantize(squares, second);
  }
};

const Register<AdamW8Bit> adamw_8bit;

}  // namespace
}  // namespace accel
