#include "models/quantized/quantize_model.h"

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
#include "models/layers/language_head.h"
#include "models/lora/lora_folder.h"
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

void AdaptedLinearImpl::hold(FrozenWeight frozen) {
  frozen_ = std::move(frozen);
  parameters_["weight"] = weight = frozen_->stored();
  frozen_->register_scales(*this);
}

bool has_quantized_weights(Model& model) {
  const auto modules = model.module().modules(false);
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(module.get());
    return layer && layer->is_quantized();
  });
}

namespace {

/// The weight of the layer `name`, whose values are rounded to `rounded` first. Under SkipInit
/// without values: those are in a checkpoint.
FrozenWeight frozen_weight(const at::Tensor& weight, const std::string& name,
                           const QuantizationOptions& options,
                           std::optional<at::ScalarType> rounded) {
  const auto type = compute_type(options);
  const std::optional<at::ScalarType> storage = options.storage();
  if (SkipInit::is_active()) {
    if (storage) return {empty_cast_weight(weight.sizes(), *storage), type};
    return {empty_quantized_weight(options.code(), weight.sizes(), options.double_quant), type};
  }
  materialize(weight);
  const DeferredInitOff at_once;
  const at::Tensor values = rounded ? weight.detach().to(*rounded) : weight;
  if (storage) return {cast_weight(values, *storage, name), type};
  return {quantize_weight(values, options.code(), options.double_quant), type};
}

/// Throws RecipeError for a model without a language model's head.
LanguageHead head_to_quantize(Model& model, const Node& section) {
  auto* const decoder = dynamic_cast<HasLanguageHead*>(&model);
  const std::optional<LanguageHead> head = decoder ? decoder->language_head() : std::nullopt;
  if (head) return *head;
  throw RecipeError({{place_of(section, "head"),
                      "'quantization.head' quantizes the head of a decoder for the next token, and "
                      "this model has none",
                      "leave it out"}});
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
    item.layer->hold(frozen_weight(item.layer->weight, item.name, options, rounded));
  }
  if (options.head) {
    ++count;
    LanguageHead head = head_to_quantize(model, section);
    head.hold(frozen_weight(head.whole_weight(), kLanguageHead, options, rounded));
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
  if (!options.skip_modules && !options.head) return;
  const char* const key = options.head ? "head" : "skip_modules";
  throw RecipeError(
      {{place_of(source.section, key),
        text("'{}' cannot act: the weights in '{}' are quantized already", key, source.folder),
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
    layer->hold(
        {empty_quantized_weight(options.code(), layer->weight.sizes(), options.double_quant),
         compute_type(options)});
  }
  load_hf_weights(model, weights, names, source.name);
}

}  // namespace

namespace {

/// Throws RecipeError for a head that is the embedding's table: training needs no copy of it.
void check_tied_head(Model& model, const QuantizationOptions& options, const Node& section) {
  if (!options.head || !head_to_quantize(model, section).is_tied()) return;
  throw RecipeError(
      {{place_of(section, "head"),
        "'quantization.head' needs an untied head in training, and this one is tied to the "
        "embedding",
        "leave it out; 'generate' can quantize the head for its products"}});
}

}  // namespace

std::unique_ptr<Model> build_quantized(const QuantizationOptions& options,
                                       const QuantizedSource& source) {
  std::optional<DeferredInit> deferred;
  if (!has_shapes_only() && !DeferredInit::is_active()) deferred.emplace();
  std::unique_ptr<Model> model = source.build();
  if (source.is_quantized) {
    load_quantized_layers(*model, options, source);
  } else {
    if (!source.folder.empty()) load_hf_weights(*model, source.folder, source.names, source.name);
    check_tied_head(*model, options, source.section);
    quantize_layers(*model, options, source.names, source.section);
  }
  if (deferred) deferred->materialize_except({});
  return model;
}

}  // namespace accel
