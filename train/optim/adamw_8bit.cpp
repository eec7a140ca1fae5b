// AdamW with 8-bit state (Dettmers et al., 2022), as bitsandbytes' AdamW8bit.
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "core/recipe/name_pattern.h"
#include "kernels/blockwise_quantization.h"
#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"
#include "train/optim/update_scalars.h"

namespace accel {
namespace {

constexpr int64_t kMapSize = 256;

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

/// Blocks run over the whole parameter, so that shares have the bits of whole ones: every rank has
/// the scales of all blocks, and ranks that share a block exchange its largest magnitudes.
class AdamW8Bit final : public OptimizerOf<AdamW8BitOptions> {
 public:
  static constexpr auto kName = "adamw_8bit";
  static constexpr const char* kHintFor[] = {"adamw_bnb_8bit", "adamw8bit", "adam8bit",
                                             "adamw_torch_8bit", "paged_adamw_8bit"};
  static constexpr auto kSummary = "AdamW with block-wise 8-bit state: a quarter of its memory.";

  static Schema<AdamW8BitOptions> schema() { return with_groups(AdamW8BitOptions::hyper_schema()); }

  AdamW8Bit(const AdamW8BitOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

  bool supports_shards() const override { return true; }

 private:
  Shape slot_shape(const std::string& slot, const Parameter& parameter) const override {
    if (slot.starts_with("absmax")) return {num_quantization_blocks(parameter.numel())};
    if (slot.starts_with("qmap")) return {kMapSize};
    return OptimizerOf::slot_shape(slot, parameter);
  }

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
      const at::Tensor map = dynamic_map(/*is_signed=*/slot == "qmap1");
      return own_part(map, parameter).to(parameter.local.device());
    }
    return OptimizerOf::fresh_slot(group, slot, parameter).to(at::kFloat);
  }

  /// The part of a slot of scales or of a map that GroupedOptimizer keeps: all, unless its shape is
  /// that of a divided parameter.
  at::Tensor own_part(const at::Tensor& slot, const Parameter& parameter) const {
    const bool is_divided =
        !parameter.is_replicated() && slot.sizes() == at::IntArrayRef(parameter.global);
    return is_divided ? shards()->part_of(slot, parameter).clone() : slot;
  }

  /// The block of each element of this rank's share.
  at::Tensor blocks_of(const Parameter& parameter) const {
    const Shape whole = parameter.shape();
    const auto type = at::TensorOptions(parameter.local.device()).dtype(at::kLong);
    at::Tensor index = at::zeros({}, type);
    int64_t stride = 1;
    for (size_t dim = whole.size(); dim-- > 0;) {
      Parameter line = {"", {}, {whole[dim]}, {}};
      for (const Placement& placement : parameter.placements) {
        if (placement.dim != static_cast<int64_t>(dim)) continue;
        line.placements.push_back(placement);
        line.placements.back().dim = 0;
      }
      const at::Tensor own = shards()->part_of(at::arange(whole[dim], type), line);
      Shape shape(whole.size(), 1);
      shape[dim] = own.numel();
      index = index.add(own.mul(stride).view(shape));
      stride *= whole[dim];
    }
    return index.floor_divide(kQuantizationBlock);
  }

  void update(const AdamW8BitOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    const AdamCorrections corrections(work.slots[0], options.betas, work.lr);
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const Parameter& origin = *work.origins[i];
      const QuantizedTensor first = {work.slots[1][i], work.slots[3][i], work.slots[5][i]};
      const QuantizedTensor second = {work.slots[2][i], work.slots[4][i], work.slots[6][i]};
      if (!first.map.defined()) {
        update_one(options, work, i, {first.codes, second.codes}, corrections);
      } else if (origin.is_replicated()) {
        const Moments moments = {dequantize(first), dequantize(second)};
        update_one(options, work, i, moments, corrections);
        quantize(moments.average, first);
        quantize(moments.squares, second);
      } else {
        update_share(options, work, i, {first, second}, corrections);
      }
    }
  }

  struct Moments {
    at::Tensor average, squares;
  };

  /// The maps are those of the optimizer: a slot may have a part of its map.
  void update_share(const AdamW8BitOptions& options, const GroupUpdate& work, size_t i,
                    std::array<QuantizedTensor, 2> state,
                    const AdamCorrections& corrections) const {
    const Parameter& origin = *work.origins[i];
    const at::Tensor blocks = blocks_of(origin);
    const int64_t count = num_quantization_blocks(origin.numel());
    for (size_t moment = 0; moment < state.size(); ++moment) {
      state[moment].map = dynamic_map(/*is_signed=*/moment == 0).to(origin.local.device());
    }
    const Moments moments = {dequantize_share(state[0], blocks),
                             dequantize_share(state[1], blocks)};
    update_one(options, work, i, moments, corrections);
    const at::Tensor largest = at::stack({largest_of_blocks(moments.average, blocks, count),
                                          largest_of_blocks(moments.squares, blocks, count)});
    shards()->all_reduce(largest, Reduce::kMax, origin);
    for (size_t moment = 0; moment < state.size(); ++moment) {
      const at::Tensor scales = largest[static_cast<int64_t>(moment)];
      state[moment].abs_max.copy_(own_part(scales, origin));
      state[moment].abs_max = scales;
      quantize_share(moment == 0 ? moments.average : moments.squares, blocks, state[moment]);
    }
  }

  static void update_one(const AdamW8BitOptions& options, const GroupUpdate& work, size_t i,
                         const Moments& moments, const AdamCorrections& corrections) {
    const at::Tensor gradient = work.gradients[i].to(at::kFloat);
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    moments.average.mul_(beta1).add_(gradient, 1 - beta1);
    moments.squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const at::Tensor divisor =
        corrections.roots[i].divide(moments.squares.sqrt()).add_(options.eps);
    const at::Tensor& parameter = work.parameters[i];
    at::Tensor weights = parameter.to(at::kFloat);
    weights.mul_(1 - work.lr * options.weight_decay);
    corrections.steps[i].addcdiv_(weights, moments.average, divisor);
    if (!weights.is_same(parameter)) parameter.copy_(weights);
  }
};

const Register<AdamW8Bit> adamw_8bit;

}  // namespace
}  // namespace accel
