#include "models/lora.h"

#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>

#include "core/model.h"
#include "core/name_pattern.h"
#include "models/adapted_linear.h"
#include "models/hf_load.h"
#include "models/lora_folder.h"
#include "models/module_state.h"

namespace accel {
namespace {

struct NamedLayer {
  std::string name;
  AdaptedLinearImpl* layer;  ///< the model's
};

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return name_matches(pattern, name); });
}

/// All that can be given an adapter: a head, which a loss may use without calling it, cannot.
std::vector<NamedLayer> adaptable_layers(Model& model, const std::vector<std::string>& heads) {
  std::vector<NamedLayer> out;
  for (const auto& item : model.module().named_modules("", false)) {
    auto* layer = dynamic_cast<AdaptedLinearImpl*>(item.value().get());
    if (layer && !matches_any(heads, item.key() + ".weight")) out.push_back({item.key(), layer});
  }
  return out;
}

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& items) {
  std::vector<std::string> names;
  for (const Named& item : items) names.push_back(item.name);
  return names;
}

void check_patterns(const std::vector<std::string>& patterns, const char* kind,
                    const std::vector<std::string>& names, const Span& where) {
  Diagnostics problems;
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const std::string& name) { return name_matches(pattern, name); };
    if (std::any_of(names.begin(), names.end(), fits)) continue;
    const UnmatchedPattern unmatched = {pattern, kind, names};
    problems.error(where, unmatched.message(), unmatched.hint());
  }
  problems.check();
}

Span place_of(const Node& section, const char* key) {
  const Node::Entry* entry = section.find(key);
  return entry ? entry->node.where : section.where;
}

bool is_of_adapter(const std::string& name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB);
}

void load_adapter(const std::vector<NamedTensor>& trained, const LoraOptions& lora,
                  const LoraPlace& place) {
  const HfNames names = {
      place.names.base, {}, {}, also_trained(lora, place.names, place.generates)};
  load_weights(trained, read_adapter_weights(lora.adapter.text), names, "lora");
}

}  // namespace

at::Tensor AdaptedLinearImpl::forward(const at::Tensor& x) {
  const at::Tensor y = torch::nn::LinearImpl::forward(x);
  if (!lora_a_) return y;
  const at::Tensor dropped = at::dropout(x, dropout_, is_training());
  return y.add(lora_b_->forward(lora_a_->forward(dropped)).mul(scale_));
}

AdapterPair make_adapter(int64_t inputs, int64_t outputs, int64_t rank) {
  const auto linear = [](int64_t in, int64_t out) {
    return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
  };
  AdapterPair pair = {linear(inputs, rank), linear(rank, outputs)};
  torch::nn::init::kaiming_uniform_(pair.a->weight, std::sqrt(5.0));
  torch::nn::init::zeros_(pair.b->weight);
  return pair;
}

void AdaptedLinearImpl::adapt(const LoraOptions& lora) {
  const AdapterPair pair = make_adapter(options.in_features(), options.out_features(), lora.rank);
  lora_a_ = register_module("lora_A", pair.a);
  lora_b_ = register_module("lora_B", pair.b);
  dropout_ = lora.dropout;
  scale_ = lora.scale();
}

std::vector<std::string> also_trained(const LoraOptions& lora, const HfNames& names,
                                      bool generates) {
  return lora.also.value_or(generates ? std::vector<std::string>() : names.heads);
}

void add_lora(Model& model, const LoraOptions& lora, const LoraPlace& place) {
  const std::vector<NamedLayer> layers = adaptable_layers(model, place.names.heads);
  check_patterns(lora.targets, "linear layer", names_of(layers),
                 place_of(place.section, "targets"));
  const std::vector<NamedTensor> base = parameters_of(model);
  if (lora.also) {
    check_patterns(*lora.also, "parameter", names_of(base), place_of(place.section, "also"));
  }
  const std::vector<std::string> also = also_trained(lora, place.names, place.generates);
  for (const NamedTensor& item : base) {
    item.tensor.set_requires_grad(matches_any(also, item.name));
  }
  for (const NamedLayer& item : layers) {
    if (matches_any(lora.targets, item.name)) item.layer->adapt(lora);
  }
  if (lora.adapter.text.empty()) return;
  std::vector<NamedTensor> trained;
  for (const NamedTensor& item : parameters_of(model)) {
    if (is_of_adapter(item.name) || matches_any(also, item.name)) trained.push_back(item);
  }
  load_adapter(trained, lora, place);
}

}  // namespace accel
