#include "models/lora/lora.h"

#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/api/block.h"
#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"
#include "kernels/choice.h"
#include "kernels/linear.h"
#include "kernels/without_autocast.h"
#include "models/hf/hf_weights.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/module_state.h"
#include "models/layers/tensor_parallel.h"
#include "models/lora/adapters_off.h"
#include "models/lora/lora_folder.h"
#include "models/lora/pattern_check.h"

namespace accel {
namespace {

struct NamedLayer {
  std::string name;
  Adaptable* layer;    ///< owned by the model
  bool is_vocabulary;  ///< an embedding, or the head of a language model
  bool is_head;        ///< another head
};

/// All layers that support an adapter.
std::vector<NamedLayer> adaptable_layers(Model& model, const std::vector<std::string>& heads) {
  std::vector<NamedLayer> out;
  for (const auto& item : model.module().named_modules("", false)) {
    auto* const module = item.value().get();
    auto* const layer = dynamic_cast<Adaptable*>(module);
    if (!layer) continue;
    const bool is_vocabulary =
        item.key() == kLanguageHead || !dynamic_cast<AdaptedLinearImpl*>(module);
    const bool is_head = !is_vocabulary && matches_any(heads, item.key() + ".weight");
    out.push_back({item.key(), layer, is_vocabulary, is_head});
  }
  return out;
}

/// Whether one of the patterns adapts the layer. Heads are trained as a whole by default, so that
/// only their full names adapt them. Patterns of parts of names, such as "*", leave embeddings and
/// the head of a language model out.
bool is_target(const NamedLayer& layer, const std::string& pattern) {
  if (pattern == layer.name) return true;
  if (layer.is_head || !name_matches(pattern, layer.name)) return false;
  return !layer.is_vocabulary || pattern.ends_with(layer.name.substr(layer.name.rfind('.') + 1));
}

bool has_name(const Parameter& item, const std::string& pattern) {
  return name_matches(pattern, item.name);
}

/// Patterns that match no layer with an adapter have no effect.
void check_layer_patterns(const LoraOptions& lora, const std::set<std::string>& adapted,
                          const Node& section) {
  std::vector<Parameter> layers;
  for (const std::string& name : adapted) layers.push_back({name, {}});
  const auto check = [&](const char* option, const auto& patterns) {
    std::vector<std::string> keys;
    for (const auto& [pattern, value] : patterns) keys.push_back(pattern);
    check_patterns(keys, "layer with an adapter", layers, place_of(section, option), has_name);
  };
  check("rank_pattern", lora.rank_pattern);
  check("alpha_pattern", lora.alpha_pattern);
}

void load_adapter(const std::vector<Parameter>& trained, const LoraOptions& lora,
                  const LoraPlace& place) {
  HfNames names = {place.names.base, {}, place.names.unused, also_trained(lora, place.names)};
  names.stored = place.names.stored;
  names.loaded = place.names.loaded;
  load_weights(trained, read_adapter_weights(lora.adapter.text), names, "lora");
}

}  // namespace

at::Tensor AdaptedLinearImpl::forward(const at::Tensor& x) {
  if (!in_fp32_) return compute(x);
  const WithoutAutocast scope(x.device().type());
  return compute(x.to(at::kFloat));
}

at::Tensor AdaptedLinearImpl::base_product(const at::Tensor& x) {
  if (frozen_) return frozen_->product(x, bias);
  // LinearImpl::forward() would add the bias by a separate operator.
  if (!fp8_ && !ranks_) return linear(x, {weight, bias});
  const at::Tensor y = weight_product(x);
  return bias.defined() && !ranks_ ? y.add(bias.to(y.scalar_type())) : y;
}

/// Without the bias.
at::Tensor AdaptedLinearImpl::weight_product(const at::Tensor& x) {
  if (frozen_) return frozen_->product(x, {});
  const bool in_fp8 = fp8_ && (is_training() || fp8_->in_evaluation);
  return in_fp8 ? fp8_linear(x, weight, fp8_) : linear(x, {weight, {}});
}

at::Tensor AdaptedLinearImpl::compute(const at::Tensor& x) {
  at::Tensor y = base_product(x);
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
    base = weight_product(dropped);
  } else if (bias.defined()) {
    base = y.sub(bias);
  }
  const at::Tensor low = lora_b_->forward(lora_a_->forward(dropped));
  return y.add(factor.sub(1).mul(base).add(factor.mul(low).mul(scale_)));
}

at::Tensor AdaptedLinearImpl::adapted_weight() const {
  return base_weight().add(lora_b_->weight.mm(lora_a_->weight).mul(scale_));
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

std::vector<std::string> also_trained(const LoraOptions& lora, const HfNames& names) {
  if (lora.modules_to_save) return *lora.modules_to_save;
  std::vector<std::string> heads = names.heads;
  std::erase(heads, std::string(kLanguageHead) + ".weight");
  return heads;
}

namespace {

/// Throws Error (kRecipe) for an adapter that an embedding or a language model's head lacks.
void check_vocabulary(const NamedLayer& layer, const LoraOptions& lora) {
  if (!layer.is_vocabulary) return;
  if (!lora.dora && !lora.lora_bias) return;
  throw Error(ExitCode::kRecipe,
              text("'lora.{}' does not support {}", lora.dora ? "dora" : "lora_bias",
                   layer.name == kLanguageHead ? "the head of a language model" : "embeddings"),
              "leave it out, or take the layer out of 'target_modules'");
}

/// In PEFT, too, adapters of tied layers are independent; a layer that it trains as a whole is,
/// unless `ensure_weight_tying` is set.
void warn_of_tied(const std::vector<NamedLayer>& layers, const std::set<std::string>& adapted,
                  const std::string& table, bool trains_table) {
  const bool has_tied = std::any_of(layers.begin(), layers.end(), [](const NamedLayer& item) {
    return dynamic_cast<const TiedHeadImpl*>(item.layer) != nullptr;
  });
  const std::string embedding = table.substr(0, table.rfind('.'));
  if (!has_tied || has_shapes_only()) return;  // shapes only: the model of a plan
  if (trains_table) {
    warn(text("'{}' is tied to '{}', and both are trained, as by PEFT with 'ensure_weight_tying'",
              kLanguageHead, embedding));
  }
  if (!adapted.contains(embedding) && !adapted.contains(kLanguageHead)) return;
  warn(
      text("'{}' is tied to '{}', and an adapter changes one of them alone: 'export --merge' "
           "writes them as two weights",
           kLanguageHead, embedding));
}

/// The folder's copies of the base weights of embeddings and heads with an adapter, which PEFT
/// loads over those of the model.
void add_base_weights(std::vector<Parameter>& loaded, const std::vector<Parameter>& base,
                      const std::set<std::string>& stored) {
  for (const Parameter& item : base) {
    if (stored.contains(item.name)) loaded.push_back(item);
  }
}

/// Throws RecipeError for a quantized weight among the weights that are trained as a whole.
void check_saved(const Parameter& item, const LoraPlace& place) {
  if (at::isFloatingType(item.local.scalar_type())) return;
  throw RecipeError({{place_of(place.section, "modules_to_save"),
                      text("'{}' is quantized and cannot be trained", item.name),
                      "add its layer to 'quantization.skip_modules', or narrow the patterns"}});
}

/// Throws RecipeError for a pattern of the head alone where that has no weight of its own. PEFT
/// trains an independent copy of it.
void check_tied_head(const std::vector<std::string>& patterns, const std::vector<Parameter>& base,
                     const LoraPlace& place) {
  const std::string& table = place.names.tied_table;
  const std::string head = std::string(kLanguageHead) + ".weight";
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const Parameter& item) { return matches_any({pattern}, item.name); };
    const bool is_of_tied_head = !table.empty() && matches_any({pattern}, head) &&
                                 std::none_of(base.begin(), base.end(), fits);
    if (!is_of_tied_head) continue;
    throw RecipeError(
        {{place_of(place.section, "modules_to_save"),
          text("'{}' has no weight to train: '{}' is tied to '{}'", pattern, kLanguageHead, table),
          text("list '{}' in place of it, which trains both, as PEFT with 'ensure_weight_tying'; "
               "a copy of the head that is trained alone, as PEFT's without it, is not supported",
               table)}});
  }
}

/// Throws RecipeError for a layer that PEFT copies and trains apart from the embedding to which it
/// is tied.
void check_copies(Model& model, const LoraOptions& lora, const std::vector<Parameter>& base,
                  const LoraPlace& place) {
  auto* const chain = dynamic_cast<BlockChain*>(&model);
  if (lora.adapter.text.empty() || !chain || !chain->tied_weight().defined()) return;
  for (const std::string& name : *lora.modules_to_save) {
    const bool is_known = std::any_of(base.begin(), base.end(),
                                      [&](const Parameter& item) { return has_name(item, name); });
    if (is_known) continue;
    throw RecipeError(
        {{place_of(place.section, "adapter"),
          text("the adapter trains a copy of '{}', which has no parameters of its own here: it is "
               "tied to the embedding",
               name.substr(0, name.rfind('.'))),
          "train the adapter without this layer in PEFT's 'modules_to_save'"}});
  }
}

/// Adds the adapters. Returns the names of their layers. As in PEFT, a layer that `modules_to_save`
/// lists is trained as a whole instead.
std::set<std::string> adapt_layers(const std::vector<NamedLayer>& layers, const LoraOptions& lora) {
  std::set<std::string> adapted;
  for (const NamedLayer& item : layers) {
    const auto fits = [&](const std::string& pattern) { return is_target(item, pattern); };
    if (std::none_of(lora.target_modules.begin(), lora.target_modules.end(), fits)) continue;
    if (lora.modules_to_save && matches_any(*lora.modules_to_save, item.name + ".weight")) continue;
    check_vocabulary(item, lora);
    item.layer->adapt(lora.for_layer(item.name));
    adapted.insert(item.name);
  }
  return adapted;
}

}  // namespace

void add_lora(Model& model, const LoraOptions& lora, const LoraPlace& place) {
  const std::vector<NamedLayer> layers = adaptable_layers(model, place.names.heads);
  check_patterns(lora.target_modules, "linear layer", layers,
                 place_of(place.section, "target_modules"), is_target);
  const std::vector<Parameter> base = parameters_of(model);
  if (lora.modules_to_save) {
    check_tied_head(*lora.modules_to_save, base, place);
    check_copies(model, lora, base, place);
    check_patterns(*lora.modules_to_save, "parameter", base,
                   place_of(place.section, "modules_to_save"), has_name);
  }
  const std::vector<std::string> also = also_trained(lora, place.names);
  for (const Parameter& item : base) item.local.set_requires_grad(false);
  const std::set<std::string> adapted = adapt_layers(layers, lora);
  check_layer_patterns(lora, adapted, place.section);
  const std::string& table = place.names.tied_table;
  const bool trains_table =
      matches_any(also, table) && !adapted.contains(table.substr(0, table.rfind('.')));
  warn_of_tied(layers, adapted, table, trains_table);
  for (const Parameter& item : base) {
    const std::string layer = item.name.substr(0, item.name.rfind('.'));
    const bool is_saved = matches_any(also, item.name) && !adapted.contains(layer);
    if (is_saved) check_saved(item, place);
    item.local.set_requires_grad(is_saved || is_trained_bias(item.name, lora, adapted));
  }
  if (lora.adapter.text.empty()) return;
  std::vector<Parameter> trained;
  for (const Parameter& item : parameters_of(model)) {
    const bool is_trained = is_of_adapter(item.name) || matches_any(also, item.name) ||
                            is_trained_bias(item.name, lora, adapted);
    if (is_trained) trained.push_back(item);
  }
  add_base_weights(trained, base, stored_base_weights(lora.adapter.text, place.names));
  load_adapter(trained, lora, place);
}

bool has_adapter_switch(Model& model) {
  const auto modules = model.module().modules(false);
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    const auto* layer = dynamic_cast<const Adaptable*>(module.get());
    return layer && layer->is_adapted();
  });
}

}  // namespace accel
