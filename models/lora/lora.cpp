#include "models/lora/lora.h"

#include <ATen/autocast_mode.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>

#include "core/api/model.h"
#include "core/recipe/name_pattern.h"
#include "models/hf/hf_weights.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/module_state.h"
#include "models/layers/tensor_parallel.h"
#include "models/lora/adapters_off.h"
#include "models/lora/lora_folder.h"

namespace accel {
namespace {

class WithoutAutocast {
 public:
  explicit WithoutAutocast(at::DeviceType device)
      : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~WithoutAutocast() { at::autocast::set_autocast_enabled(device_, was_enabled_); }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
};

struct NamedLayer {
  std::string name;
  AdaptedLinearImpl* layer;  ///< owned by the model
};

/// All layers that support an adapter; heads do not, because losses may use their weight directly.
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

void load_adapter(const std::vector<Parameter>& trained, const LoraOptions& lora,
                  const LoraPlace& place) {
  const HfNames names = {
      place.names.base, {}, {}, also_trained(lora, place.names, place.generates)};
  load_weights(trained, read_adapter_weights(lora.adapter.text), names, "lora");
}

}  // namespace

at::Tensor AdaptedLinearImpl::forward(const at::Tensor& x) {
  if (!in_fp32_) return compute(x);
  const WithoutAutocast scope(x.device().type());
  return compute(x.to(at::kFloat));
}

at::Tensor AdaptedLinearImpl::compute(const at::Tensor& x) {
  at::Tensor y = ranks_ ? at::linear(x, weight) : torch::nn::LinearImpl::forward(x);
  if (lora_a_ && !AdaptersOff::is_active()) {
    const at::Tensor dropped = own_dropout(ranks_, x, is_training() ? dropout_ : 0);
    y = y.add(lora_b_->forward(lora_a_->forward(dropped)).mul(scale_));
  }
  if (!ranks_ || !sums_) return y;
  y = ranks_->leave(y);
  return bias.defined() ? y.add(bias.to(y.scalar_type())) : y;
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
  return lora.modules_to_save.value_or(generates ? std::vector<std::string>() : names.heads);
}

void add_lora(Model& model, const LoraOptions& lora, const LoraPlace& place) {
  const std::vector<NamedLayer> layers = adaptable_layers(model, place.names.heads);
  check_patterns(lora.target_modules, "linear layer", names_of(layers),
                 place_of(place.section, "target_modules"));
  const std::vector<Parameter> base = parameters_of(model);
  if (lora.modules_to_save) {
    check_patterns(*lora.modules_to_save, "parameter", names_of(base),
                   place_of(place.section, "modules_to_save"));
  }
  const std::vector<std::string> also = also_trained(lora, place.names, place.generates);
  for (const Parameter& item : base) {
    item.local.set_requires_grad(matches_any(also, item.name));
  }
  for (const NamedLayer& item : layers) {
    if (matches_any(lora.target_modules, item.name)) item.layer->adapt(lora);
  }
  if (lora.adapter.text.empty()) return;
  std::vector<Parameter> trained;
  for (const Parameter& item : parameters_of(model)) {
    if (is_of_adapter(item.name) || matches_any(also, item.name)) trained.push_back(item);
  }
  load_adapter(trained, lora, place);
}

bool has_adapter_switch(Model& model) {
  const auto modules = model.module().modules(false);
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(module.get());
    return layer && layer->is_adapted();
  });
}

}  // namespace accel
