#include "models/lora/expert_adapters.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.h"
#include "models/lora/lora_folder.h"

namespace accel {
namespace {

constexpr std::string_view kExperts = ".mlp.experts.";
constexpr auto kGate = "gate_proj";
constexpr auto kUp = "up_proj";
constexpr auto kDown = "down_proj";

/// PEFT converts the adapters of Mixtral and Qwen3-MoE. It does not know the type of Qwen2-MoE,
/// after which it names the conversion.
bool is_converted(const HfNames& names) {
  return names.stored != nullptr || !names.module.later.empty();
}

std::string last_name(const std::string& layer) {
  return layer.substr(layer.rfind('.') + 1);
}

/// The layers of an adapter, in three kinds.
struct AdaptedExperts {
  /// Experts with an adapter by their list and projection: {"model.layers.0.mlp.experts",
  /// "up_proj"}.
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  std::set<std::string> projections;  ///< of experts
  std::string first_expert;           ///< a layer with its own rank or alpha, else ""
  std::string first_dense;            ///< a projection of an MLP beside experts, else ""
};

AdaptedExperts adapted_experts(const LoraOptions& lora, const std::vector<NamedArray>& adapter) {
  AdaptedExperts out;
  const double alpha = lora.alpha.value_or(static_cast<double>(lora.rank));
  for (const std::string& layer : adapted_layers(adapter)) {
    const std::string projection = last_name(layer);
    const size_t list = layer.find(kExperts);
    if (list == layer.npos) {
      const bool is_dense = projection == kGate || projection == kUp || projection == kDown;
      if (is_dense && out.first_dense.empty()) out.first_dense = layer;
      continue;
    }
    ++out.counts[{layer.substr(0, list + kExperts.size() - 1), projection}];
    out.projections.insert(projection);
    const LoraOptions own = lora.for_layer(layer);
    const bool differs = own.rank != lora.rank || own.alpha.value_or(alpha) != alpha;
    if (differs && out.first_expert.empty()) out.first_expert = layer;
  }
  return out;
}

/// PEFT stacks the experts of a layer, and joins gate and up.
bool can_be_stacked(const AdaptedExperts& experts, int64_t num_experts) {
  if (experts.projections.contains(kGate) != experts.projections.contains(kUp)) return false;
  return std::all_of(experts.counts.begin(), experts.counts.end(), [&](const auto& item) {
    const auto& [list, projection] = item.first;
    const bool is_joined = projection != kDown;
    const auto other = experts.counts.find({list, projection == kGate ? kUp : kGate});
    return item.second == num_experts &&
           (!is_joined || (other != experts.counts.end() && other->second == num_experts));
  });
}

}  // namespace

std::string peft_expert_problem(const LoraOptions& lora, const std::vector<NamedArray>& adapter,
                                const HfNames& names, int64_t num_experts) {
  if (num_experts == 0) return {};
  const AdaptedExperts found = adapted_experts(lora, adapter);
  const bool has_experts = !found.counts.empty();
  if (!is_converted(names)) {
    return has_experts ? "does not load adapters of this model's experts" : "";
  }
  if (!found.first_dense.empty()) {
    return text("takes '{}' for a layer of experts, and ignores its adapter", found.first_dense);
  }
  if (!has_experts) return {};
  if (!can_be_stacked(found, num_experts)) {
    return "loads adapters of experts only if all of a layer have them, in both of 'gate_proj' and "
           "'up_proj' or in none";
  }
  const bool is_factored = lora.init == LoraInit::kPissa || lora.init == LoraInit::kOlora;
  if (lora.dora || lora.lora_bias || is_factored) {
    return "loads no adapters of experts with 'dora', 'lora_bias' or the init pissa or olora";
  }
  if (lora.dropout > 0) return "loads adapters of experts only with a 'lora_dropout' of 0";
  if (!found.first_expert.empty()) {
    return text("gives '{}' the rank and alpha of the other layers", found.first_expert);
  }
  if (lora.rslora && found.projections.contains(kGate)) {
    return "scales the joined 'gate_proj' and 'up_proj' of experts otherwise with 'rslora'";
  }
  return {};
}

}  // namespace accel
