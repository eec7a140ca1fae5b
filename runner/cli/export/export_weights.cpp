#include "runner/cli/export/export_weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "checkpoint/tensors.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_weights.h"
#include "models/lora/lora_folder.h"
#include "runner/cli/export/dequantized_weights.h"

namespace accel {
namespace {

/// The adapter's weights by name.
using Arrays = std::map<std::string, Array>;

/// A layer's weight with its adapter: plus its product, and with DoRA of the magnitude's length.
Array merged(const TensorSource& weight, const Arrays& weights, double scale) {
  const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
  const at::Tensor base = tensor_of(weight.read());
  if (weights.contains(layer + kLoraEmbeddingA)) {
    const at::Tensor a = tensor_of(weights.at(layer + kLoraEmbeddingA));
    const at::Tensor b = tensor_of(weights.at(layer + kLoraEmbeddingB));
    return array_of(base.add(a.t().mm(b.t()).mul(scale)), weight.name);
  }
  const at::Tensor product =
      tensor_of(weights.at(layer + kLoraB)).mm(tensor_of(weights.at(layer + kLoraA))).mul(scale);
  at::Tensor sum = base.add(product);
  if (const auto magnitude = weights.find(layer + kLoraMagnitude); magnitude != weights.end()) {
    sum = sum.mul(tensor_of(magnitude->second).div(sum.norm(2, {1})).unsqueeze(1));
  }
  return array_of(sum, weight.name);
}

Array merged_bias(const TensorSource& bias, const Array& more, double scale) {
  return array_of(tensor_of(bias.read()).add(tensor_of(more).mul(scale)), bias.name);
}

/// The head's weight untied from the embedding's `table`; none without an adapter of either.
std::optional<TensorSource> untied_head(const std::vector<TensorSource>& weights,
                                        const std::set<std::string>& adapted,
                                        const std::string& table) {
  const std::string embedding = table.substr(0, table.rfind('.'));
  if (table.empty() || (!adapted.contains(embedding) && !adapted.contains(kLanguageHead))) {
    return std::nullopt;
  }
  for (const TensorSource& weight : weights) {
    if (weight.name != table) continue;
    TensorSource head = weight;
    head.name = std::string(kLanguageHead) + ".weight";
    return head;
  }
  return std::nullopt;
}

/// Throws for the bias of an adapter whose layer has none.
void check_biases(const std::set<std::string>& adapted, const Arrays& by_name) {
  for (const std::string& layer : adapted) {
    if (!by_name.contains(layer + kLoraBias) || by_name.contains(layer + ".bias")) continue;
    throw Error(
        ExitCode::kRecipe,
        text("'--merge' cannot merge the bias of the adapter of '{}', which has none", layer),
        "leave '--merge' out: the adapter is exported with its bias");
  }
}

/// The weights `base` of a model with its adapter merged into them, one at a time. `stored`: all of
/// the checkpoint.
std::vector<TensorSource> merged_weights(std::vector<TensorSource> base,
                                         const std::vector<NamedArray>& stored,
                                         const LoraOptions& lora, const std::string& tied_table) {
  const std::set<std::string> adapted = adapted_layers(stored);
  if (auto head = untied_head(base, adapted, tied_table)) base.push_back(std::move(*head));
  const auto by_name = std::make_shared<Arrays>();
  for (const NamedArray& weight : stored) (*by_name)[weight.name] = weight.array;
  check_biases(adapted, *by_name);
  std::vector<TensorSource> out;
  for (const TensorSource& weight : base) {
    if (is_of_adapter(weight.name)) continue;
    const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
    TensorSource source = weight;
    if (by_name->contains(layer + kLoraA) || by_name->contains(layer + kLoraEmbeddingA)) {
      const double scale = lora.for_layer(layer).scale();
      if (weight.name.ends_with(".weight")) {
        source.read = [weight, by_name, scale] { return merged(weight, *by_name, scale); };
      } else if (by_name->contains(layer + kLoraBias)) {
        source.read = [weight, more = by_name->at(layer + kLoraBias), scale] {
          return merged_bias(weight, more, scale);
        };
      }
    }
    out.push_back(std::move(source));
  }
  return out;
}

}  // namespace

std::vector<TensorSource> whole_weights(const std::vector<NamedArray>& weights,
                                        const ExportSource& source) {
  std::vector<TensorSource> out;
  if (source.quantization.is_on()) {
    out = dequantized_weights(weights, source.quantization);
  } else {
    for (const NamedArray& weight : weights) out.push_back(source_of(weight));
  }
  if (!source.lora) return out;
  return merged_weights(std::move(out), weights, *source.lora,
                        source.family->names(source.options).tied_table);
}

WeightShapes shapes_of(const std::vector<TensorSource>& weights) {
  WeightShapes out;
  for (const TensorSource& weight : weights) out[weight.name] = weight.shape;
  return out;
}

std::vector<TensorSource> stored_sources(const std::vector<TensorSource>& weights,
                                         const HfNames& names) {
  std::vector<TensorSource> out;
  for (const TensorSource& weight : weights) {
    TensorSource stored = weight;
    stored.name = names.stored_name(weight.name);
    const bool turned = std::any_of(
        names.transposed.begin(), names.transposed.end(),
        [&](const std::string& pattern) { return matches_hf_pattern(stored.name, pattern); });
    if (turned && weight.shape.size() == 2) {
      std::swap(stored.shape[0], stored.shape[1]);
      stored.read = [weight, names] {
        return stored_weight({weight.name, weight.read()}, names).array;
      };
    }
    out.push_back(std::move(stored));
  }
  return out;
}

}  // namespace accel
