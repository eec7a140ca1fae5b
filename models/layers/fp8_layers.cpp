#include "models/layers/fp8_layers.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/api/model.h"
#include "core/base/glob.h"
#include "core/base/text.h"
#include "kernels/fp8/fp8_matrix.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/module_state.h"
#include "models/lora/lora_folder.h"
#include "models/lora/pattern_check.h"

namespace accel {
namespace {

constexpr size_t kMostNames = 2;  // of one reason in a summary

/// Why the layer cannot compute in fp8, or "".
std::string obstacle(const std::string& name, const torch::nn::LinearImpl& linear) {
  const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(&linear);
  if (!layer) return "of another class";
  if (layer->is_quantized()) return "quantized";
  if (layer->is_in_fp32()) return "in float32";
  if (name == kLanguageHead) return "part of the loss";
  const int64_t outputs = linear.weight.size(0), inputs = linear.weight.size(1);
  if (inputs % kFp8Multiple == 0 && outputs % kFp8Multiple == 0) return "";
  return text("{} x {}, no multiples of {}", inputs, outputs, kFp8Multiple);
}

std::vector<Fp8Candidate> linear_layers(Model& model) {
  std::vector<Fp8Candidate> out;
  for (const auto& item : model.module().named_modules("", false)) {
    auto* const module = item.value().get();
    const std::string& name = item.key();
    if (is_of_adapter(name + ".weight")) continue;
    if (const auto* linear = dynamic_cast<const torch::nn::LinearImpl*>(module)) {
      out.push_back({name, dynamic_cast<AdaptedLinearImpl*>(module), obstacle(name, *linear)});
    } else if (dynamic_cast<const TiedHeadImpl*>(module)) {
      out.push_back({name, nullptr, "part of the loss"});
    }
  }
  return out;
}

void keep(Fp8Candidate& layer, const char* reason) {
  if (layer.reason.empty()) layer.reason = reason;
}

bool has_layer_name(const Fp8Candidate& item, const std::string& pattern) {
  return name_matches(pattern, item.name);
}

/// "gate and 22 more"
std::string few_names(const std::vector<std::string>& names) {
  if (names.size() <= kMostNames + 1) return joined(names);
  const std::vector<std::string> first(names.begin(), names.begin() + kMostNames);
  return text("{} and {} more", joined(first), names.size() - kMostNames);
}

}  // namespace

std::vector<Fp8Candidate> fp8_candidates(Model& model,
                                         const std::optional<std::vector<std::string>>& filter,
                                         const Span& where) {
  std::vector<Fp8Candidate> layers = linear_layers(model);
  if (filter) {
    check_patterns(*filter, "linear layer", layers, where, has_layer_name);
    for (Fp8Candidate& layer : layers) {
      if (matches_any(*filter, layer.name)) keep(layer, "by 'filter'");
    }
  } else if (!layers.empty()) {
    keep(layers.front(), "the first");
    keep(layers.back(), "the last");
  }
  const auto is_left = [](const Fp8Candidate& layer) { return layer.reason.empty(); };
  if (std::any_of(layers.begin(), layers.end(), is_left)) return layers;
  const std::string why = layers.empty() ? "the model has none" : fp8_summary(layers);
  throw RecipeError(
      {{where, text("no linear layer can compute in fp8: {}", why),
        "set 'filter: []' to take the first and the last one too, or train in bf16"}});
}

void set_fp8(const Fp8Candidate& candidate, std::shared_ptr<const Fp8Layer> layer) {
  candidate.layer->compute_in_fp8(std::move(layer));
}

bool reads_fp8_alone(const Fp8Candidate& candidate) {
  return !candidate.layer->has_magnitude();
}

std::map<std::string, std::shared_ptr<GatheredWeight>> fp8_gathered_weights(Model& model) {
  std::map<const void*, std::shared_ptr<GatheredWeight>> of_tensor;
  for (const auto& module : model.module().modules()) {
    const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(module.get());
    if (!layer || !layer->fp8() || !layer->fp8()->gathered) continue;
    of_tensor[layer->weight.unsafeGetTensorImpl()] = layer->fp8()->gathered;
  }
  std::map<std::string, std::shared_ptr<GatheredWeight>> out;
  for (const Parameter& item : parameters_of(model)) {
    const auto found = of_tensor.find(item.local.unsafeGetTensorImpl());
    if (found != of_tensor.end()) out[item.name] = found->second;
  }
  return out;
}

std::string fp8_summary(const std::vector<Fp8Candidate>& layers) {
  std::vector<std::string> reasons;  // in order of their first layer
  std::map<std::string, std::vector<std::string>> names;
  for (const Fp8Candidate& layer : layers) {
    if (layer.reason.empty()) continue;
    std::vector<std::string>& of_reason = names[layer.reason];
    if (of_reason.empty()) reasons.push_back(layer.reason);
    of_reason.push_back(layer.name);
  }
  size_t others = 0;
  std::vector<std::string> shown;
  for (const std::string& reason : reasons) {
    others += names[reason].size();
    shown.push_back(text("{} ({})", few_names(names[reason]), reason));
  }
  const std::string all = text("{} of {} linear layers", layers.size() - others, layers.size());
  return shown.empty() ? all : text("{}; in bf16: {}", all, joined(shown));
}

}  // namespace accel
