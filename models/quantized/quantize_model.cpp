#include "models/quantized/quantize_model.h"

#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"
#include "kernels/choice.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/memory/skip_init.h"
#include "models/hf/hf_config.h"
#include "models/layers/adapted_linear.h"
#include "models/lora/pattern_check.h"
#include "models/quantized/cast_weight.h"
#include "models/quantized/quantized_folder.h"

namespace accel {
namespace {

struct NamedLinear {
  std::string name;
  AdaptedLinearImpl* layer;  ///< owned by the model
};

std::optional<at::ScalarType> compute_type(const QuantizationOptions& options) {
  if (!options.compute_dtype) return std::nullopt;
  return type_of(*options.compute_dtype);
}

/// The layers that bitsandbytes quantizes: transformers' linear layers without the heads.
std::vector<NamedLinear> quantizable_layers(Model& model, const HfNames& names) {
  std::vector<NamedLinear> out;
  for (const auto& item : model.module().named_modules("", false)) {
    auto* layer = dynamic_cast<AdaptedLinearImpl*>(item.value().get());
    if (!layer || layer->is_in_fp32()) continue;
    const std::string weight = item.key() + ".weight";
    const std::string stored = names.stored_name(weight);
    const auto is_head = [&](const std::string& pattern) {
      return matches_hf_pattern(stored, pattern) || matches_hf_pattern(weight, pattern);
    };
    if (std::any_of(names.heads.begin(), names.heads.end(), is_head)) continue;
    if (item.key() == "lm_head" || item.key() == "score") continue;
    if (names.module.fused && names.module.fused(weight)) continue;
    if (!names.unquantized.empty() && item.key().ends_with("." + names.unquantized)) continue;
    out.push_back({item.key(), layer});
  }
  return out;
}

bool has_name(const NamedLinear& item, const std::string& pattern) {
  return name_matches(pattern, item.name);
}

}  // namespace

void AdaptedLinearImpl::hold(const QuantizedWeight& quantized,
                             std::optional<at::ScalarType> compute_type) {
  quantized_ = quantized;
  compute_type_ = compute_type;
  quantized.codes.set_requires_grad(false);
  parameters_["weight"] = weight = quantized.codes;
  // bitsandbytes' names: "weight" and "weight.absmax".
  const auto parts = register_module("weight", std::make_shared<torch::nn::Module>());
  const auto add = [&](const char* name, const at::Tensor& tensor) {
    if (tensor.defined()) parts->register_parameter(name, tensor, /*requires_grad=*/false);
  };
  add("absmax", quantized.abs_max);
  add("nested_absmax", quantized.nested_abs_max);
  add("nested_offset", quantized.nested_offset);
  if (quantized.code == WeightCode::kInt8) return;
  add("shape", at::tensor({quantized.rows, quantized.columns}, at::kLong));
}

void AdaptedLinearImpl::hold_cast(const at::Tensor& stored,
                                  std::optional<at::ScalarType> compute_type) {
  is_cast_ = true;
  compute_type_ = compute_type;
  parameters_["weight"] = weight = stored.set_requires_grad(false);
}

at::Tensor AdaptedLinearImpl::base_weight() const {
  if (is_cast_) return uncast_weight(weight, at::kFloat);
  return quantized_ ? dequantize_weight(*quantized_, at::kFloat) : weight;
}

bool has_quantized_weights(Model& model) {
  const auto modules = model.module().modules(false);
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(module.get());
    return layer && layer->is_quantized();
  });
}

namespace {

/// Without values: those are in a checkpoint.
void hold_empty(AdaptedLinearImpl& layer, const QuantizationOptions& options) {
  const auto sizes = layer.weight.sizes();
  if (const auto storage = options.storage()) {
    layer.hold_cast(empty_cast_weight(sizes, *storage), compute_type(options));
  } else {
    layer.hold(empty_quantized_weight(options.code(), sizes, options.double_quant),
               compute_type(options));
  }
}

void quantize_layer(const NamedLinear& item, const QuantizationOptions& options,
                    std::optional<at::ScalarType> rounded) {
  materialize(item.layer->weight);
  const at::Tensor& own = item.layer->weight;
  const at::Tensor weight = rounded ? own.detach().to(*rounded) : own;
  if (const auto storage = options.storage()) {
    item.layer->hold_cast(cast_weight(weight, *storage, item.name), compute_type(options));
  } else {
    item.layer->hold(quantize_weight(weight, options.code(), options.double_quant),
                     compute_type(options));
  }
}

}  // namespace

int64_t quantize_layers(Model& model, const QuantizationOptions& options, const HfNames& names,
                        const Node& section, std::optional<at::ScalarType> rounded) {
  const std::vector<NamedLinear> layers = quantizable_layers(model, names);
  const std::vector<std::string> skipped =
      options.skip_modules.value_or(std::vector<std::string>());
  check_patterns(skipped, "linear layer", layers, place_of(section, "skip_modules"), has_name);
  int64_t count = 0;
  for (const NamedLinear& item : layers) {
    if (matches_any(skipped, item.name)) continue;
    ++count;
    if (SkipInit::is_active()) {
      hold_empty(*item.layer, options);
    } else {
      quantize_layer(item, options, rounded);
    }
  }
  if (count > 0) return count;
  throw RecipeError({{section.where, "'quantization' leaves all linear layers as they are",
                      "leave it out, or narrow 'skip_modules'"}});
}

namespace {

/// Throws RecipeError where the recipe contradicts the folder.
void check_folder(const QuantizationOptions& options, const QuantizedSource& source) {
  HfConfig config(source.folder);
  const QuantizationOptions theirs = quantization_in(config);
  if (options.type != theirs.type || options.double_quant != theirs.double_quant) {
    throw RecipeError({{source.section.where,
                        text("'quantization' is {} here and {} in '{}'", options.description(),
                             theirs.description(), source.folder),
                        "leave it out to take it from the folder"}});
  }
  if (!options.skip_modules) return;
  throw RecipeError(
      {{place_of(source.section, "skip_modules"),
        text("'skip_modules' cannot act: the weights in '{}' are quantized already", source.folder),
        "leave it out, or name a folder with unquantized weights"}});
}

void load_quantized_layers(Model& model, const QuantizationOptions& options,
                           const QuantizedSource& source) {
  check_folder(options, source);
  HfWeights weights(source.folder);
  const HfNames& names = source.names;
  const std::set<std::string> quantized = read_quantized_names(weights, options.code());
  for (const auto& item : model.module().named_modules("", false)) {
    auto* layer = dynamic_cast<AdaptedLinearImpl*>(item.value().get());
    if (!layer) continue;
    const std::string stored = names.stored_name(item.key() + ".weight");
    if (!quantized.contains(stored) && !is_in_base(quantized, stored, names.base)) continue;
    layer->hold(empty_quantized_weight(options.code(), layer->weight.sizes(), options.double_quant),
                compute_type(options));
  }
  load_hf_weights(model, weights, names, source.name);
}

}  // namespace

std::unique_ptr<Model> build_quantized(const QuantizationOptions& options,
                                       const QuantizedSource& source) {
  std::optional<DeferredInit> deferred;
  if (!has_shapes_only()) deferred.emplace();
  std::unique_ptr<Model> model = source.build();
  if (source.is_quantized) {
    load_quantized_layers(*model, options, source);
  } else {
    if (!source.folder.empty()) load_hf_weights(*model, source.folder, source.names, source.name);
    quantize_layers(*model, options, source.names, source.section);
  }
  if (deferred) deferred->materialize_except({});
  return model;
}

}  // namespace accel
