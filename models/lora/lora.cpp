#include "models/lora/lora.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
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

/// All layers that support an adapter. Heads are trained as a whole by default, so that only their
/// full names among `targets` adapt them.
std::vector<NamedLayer> adaptable_layers(Model& model, const std::vector<std::string>& heads,
                                         const std::vector<std::string>& targets) {
  std::vector<NamedLayer> out;
  for (const auto& item : model.module().named_modules("", false)) {
    auto* layer = dynamic_cast<AdaptedLinearImpl*>(item.value().get());
    if (!layer) continue;
    const bool named = std::find(targets.begin(), targets.end(), item.key()) != targets.end();
    if (named || !matches_any(heads, item.key() + ".weight")) out.push_back({item.key(), layer});
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

/// Patterns that match no layer with an adapter have no effect.
void check_layer_patterns(const LoraOptions& lora, const std::set<std::string>& adapted,
                          const Node& section) {
  const std::vector<std::string> names(adapted.begin(), adapted.end());
  const auto check = [&](const char* option, const auto& patterns) {
    std::vector<std::string> keys;
    for (const auto& [pattern, value] : patterns) keys.push_back(pattern);
    check_patterns(keys, "layer with an adapter", names, place_of(section, option));
  };
  check("rank_pattern", lora.rank_pattern);
  check("alpha_pattern", lora.alpha_pattern);
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
  const bool is_adapted = lora_a_ && !AdaptersOff::is_active();
  if (is_adapted && magnitude_.defined()) return directed(x, y);
  if (is_adapted) {
    const at::Tensor dropped = own_dropout(ranks_, x, is_training() ? dropout_ : 0);
    y = y.add(lora_b_->forward(lora_a_->forward(dropped)).mul(scale_));
  }
  if (!ranks_ || !sums_) return y;
  y = ranks_->leave(y);
  return bias.defined() ? y.add(bias.to(y.scalar_type())) : y;
}

/// DoRA's output for `y`, that of the linear layer: the norm of a row is a constant of the backward
/// pass (section 4.3 of the paper).
at::Tensor AdaptedLinearImpl::directed(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor norm = at::linalg_vector_norm(adapted_weight().detach(), 2, {1});
  const at::Tensor factor = magnitude_.div(norm).view({1, -1});
  const double dropout = is_training() ? dropout_ : 0;
  const at::Tensor dropped = own_dropout(ranks_, x, dropout);
  at::Tensor base = y;
  if (dropout > 0) {
    base = at::linear(dropped, weight);
  } else if (bias.defined()) {
    base = y.sub(bias);
  }
  const at::Tensor low = lora_b_->forward(lora_a_->forward(dropped));
  return y.add(factor.sub(1).mul(base).add(factor.mul(low).mul(scale_)));
}

at::Tensor AdaptedLinearImpl::adapted_weight() const {
  return weight.add(lora_b_->weight.mm(lora_a_->weight).mul(scale_));
}

AdapterPair make_adapter(int64_t inputs, int64_t outputs, const LoraOptions& lora) {
  const auto linear = [](int64_t in, int64_t out, bool bias) {
    return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
  };
  AdapterPair pair = {linear(inputs, lora.rank, false), linear(lora.rank, outputs, lora.lora_bias)};
  if (lora.init == LoraInit::kGaussian) {
    torch::nn::init::normal_(pair.a->weight, 0.0, 1.0 / static_cast<double>(lora.rank));
  } else if (lora.init == LoraInit::kDefault) {
    torch::nn::init::kaiming_uniform_(pair.a->weight, std::sqrt(5.0));
  }
  torch::nn::init::zeros_(pair.b->weight);
  if (pair.b->bias.defined()) torch::nn::init::zeros_(pair.b->bias);
  return pair;
}

void AdaptedLinearImpl::adapt(const LoraOptions& lora) {
  const bool plain = !lora.dora && !lora.lora_bias;
  if (ranks_ && !plain) {
    throw Error(ExitCode::kRecipe,
                "'lora.dora' and 'lora.lora_bias' do not support tensor parallelism",
                "set 'accelerator.parallelism.tp: 1'");
  }
  const AdapterPair pair = make_adapter(options.in_features(), options.out_features(), lora);
  lora_a_ = register_module("lora_A", pair.a);
  lora_b_ = register_module("lora_B", pair.b);
  dropout_ = lora.dropout;
  scale_ = lora.scale();
  take_part(lora.init);
  if (!lora.dora) return;
  magnitude_ = register_parameter("lora_magnitude_vector", at::ones({options.out_features()}));
  set_magnitude();
}

void AdaptedLinearImpl::set_magnitude() {
  if (!magnitude_.defined()) return;
  const torch::NoGradGuard no_grad;
  magnitude_.copy_(at::linalg_vector_norm(adapted_weight(), 2, {1}));
}

/// Moves a part of rank `lora_A` from the weight to the adapter. Weights that a checkpoint
/// overwrites are not initialized: they may be not finite and are left as they are.
void AdaptedLinearImpl::take_part(LoraInit init) {
  if (init != LoraInit::kPissa && init != LoraInit::kOlora) return;
  if (ranks_ || !weight.has_storage()) {
    throw Error(ExitCode::kRecipe,
                "'lora.init' pissa and olora decompose whole weights, which ranks divide here",
                "write 'init: default', or train without 'fsdp' and 'tp'");
  }
  const torch::NoGradGuard no_grad;
  if (!weight.isfinite().all().item<bool>()) return;
  const int64_t rank = lora_a_->weight.size(0);
  if (rank > std::min(weight.size(0), weight.size(1))) {
    throw Error(ExitCode::kRecipe,
                text("'lora.init' pissa and olora need a rank of at most {}, the smaller side of a "
                     "weight",
                     std::min(weight.size(0), weight.size(1))),
                "lower 'rank', or write 'init: default'");
  }
  if (init == LoraInit::kPissa) {
    const auto [u, s, v] = at::linalg_svd(weight, /*full_matrices=*/false);
    const at::Tensor root = s.narrow(0, 0, rank).div(scale_).sqrt();
    lora_a_->weight.copy_(root.unsqueeze(1).mul(v.narrow(0, 0, rank)));
    lora_b_->weight.copy_(u.narrow(1, 0, rank).mul(root));
  } else {
    const auto [q, r] = at::linalg_qr(weight);
    lora_a_->weight.copy_(r.narrow(0, 0, rank));
    lora_b_->weight.copy_(q.narrow(1, 0, rank));
  }
  weight.sub_(lora_b_->weight.mm(lora_a_->weight).mul(scale_));
}

std::vector<std::string> also_trained(const LoraOptions& lora, const HfNames& names,
                                      bool generates) {
  return lora.modules_to_save.value_or(generates ? std::vector<std::string>() : names.heads);
}

void add_lora(Model& model, const LoraOptions& lora, const LoraPlace& place) {
  const std::vector<NamedLayer> layers =
      adaptable_layers(model, place.names.heads, lora.target_modules);
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
  std::set<std::string> adapted;
  for (const NamedLayer& item : layers) {
    if (!matches_any(lora.target_modules, item.name)) continue;
    item.layer->adapt(lora.for_layer(item.name));
    item.layer->weight.set_requires_grad(false);
    if (item.layer->bias.defined()) item.layer->bias.set_requires_grad(false);
    adapted.insert(item.name);
  }
  check_layer_patterns(lora, adapted, place.section);
  for (const Parameter& item : base) {
    if (is_trained_bias(item.name, lora, adapted)) item.local.set_requires_grad(true);
  }
  if (lora.adapter.text.empty()) return;
  std::vector<Parameter> trained;
  for (const Parameter& item : parameters_of(model)) {
    const bool is_trained = is_of_adapter(item.name) || matches_any(also, item.name) ||
                            is_trained_bias(item.name, lora, adapted);
    if (is_trained) trained.push_back(item);
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
