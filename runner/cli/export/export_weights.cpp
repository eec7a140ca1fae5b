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

namespace accel {
namespace {

/// A layer's weight with its adapter: plus its product, and with DoRA of the magnitude's length.
Array merged(const NamedArray& weight, const std::map<std::string, Array>& weights, double scale) {
  const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
  if (weights.contains(layer + kLoraEmbeddingA)) {
    const at::Tensor a = tensor_of(weights.at(layer + kLoraEmbeddingA));
    const at::Tensor b = tensor_of(weights.at(layer + kLoraEmbeddingB));
    return array_of(tensor_of(weight.array).add(a.t().mm(b.t()).mul(scale)), weight.name);
  }
  const at::Tensor product =
      tensor_of(weights.at(layer + kLoraB)).mm(tensor_of(weights.at(layer + kLoraA))).mul(scale);
  at::Tensor sum = tensor_of(weight.array).add(product);
  if (const auto magnitude = weights.find(layer + kLoraMagnitude); magnitude != weights.end()) {
    sum = sum.mul(tensor_of(magnitude->second).div(sum.norm(2, {1})).unsqueeze(1));
  }
  return array_of(sum, weight.name);
}

Array merged_bias(const NamedArray& bias, const Array& more, double scale) {
  return array_of(tensor_of(bias.array).add(tensor_of(more).mul(scale)), bias.name);
}

/// The head's weight untied from the embedding's `table`; none without an adapter of either.
std::optional<NamedArray> untied_head(const std::vector<NamedArray>& weights,
                                      const std::string& table) {
  const std::string embedding = table.substr(0, table.rfind('.'));
  const std::set<std::string> adapted = adapted_layers(weights);
  if (table.empty() || (!adapted.contains(embedding) && !adapted.contains(kLanguageHead))) {
    return std::nullopt;
  }
  for (const NamedArray& weight : weights) {
    if (weight.name == table)
      return NamedArray{std::string(kLanguageHead) + ".weight", weight.array};
  }
  return std::nullopt;
}

/// The weights of a model with its adapter merged into them, one at a time.
std::vector<TensorSource> merged_weights(std::vector<NamedArray> weights, const LoraOptions& lora,
                                         const std::string& tied_table) {
  if (auto head = untied_head(weights, tied_table)) weights.push_back(std::move(*head));
  const auto by_name = std::make_shared<std::map<std::string, Array>>();
  for (const NamedArray& weight : weights) (*by_name)[weight.name] = weight.array;
  for (const std::string& layer : adapted_layers(weights)) {
    if (!by_name->contains(layer + kLoraBias) || by_name->contains(layer + ".bias")) continue;
    throw Error(
        ExitCode::kRecipe,
        text("'--merge' cannot merge the bias of the adapter of '{}', which has none", layer),
        "leave '--merge' out: the adapter is exported with its bias");
  }
  std::vector<TensorSource> out;
  for (const NamedArray& weight : weights) {
    if (is_of_adapter(weight.name)) continue;
    const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
    TensorSource source = source_of(weight);
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
  if (source.lora) {
    return merged_weights(weights, *source.lora, source.family->names(source.options).tied_table);
  }
  std::vector<TensorSource> out;
  for (const NamedArray& weight : weights) out.push_back(source_of(weight));
  return out;
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
