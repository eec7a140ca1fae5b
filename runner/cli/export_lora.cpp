#include "runner/cli/export_lora.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/lora_folder.h"
#include "runner/checkpoint/tensors.h"

namespace accel {
namespace {

using ByName = std::map<std::string, const Array*>;

const Array& weight_in(const ByName& weights, const std::string& name) {
  const auto found = weights.find(name);
  if (found == weights.end()) {
    throw CheckpointError("the checkpoint has an adapter, but no '" + name + "'",
                          "it was made by another version or another recipe");
  }
  return *found->second;
}

}  // namespace

std::vector<NamedArray> merged_weights(const std::vector<NamedArray>& weights,
                                       const LoraOptions& lora) {
  ByName by_name;
  for (const NamedArray& weight : weights) by_name[weight.name] = &weight.array;
  std::vector<NamedArray> out;
  for (const NamedArray& weight : weights) {
    if (weight.name.ends_with(kLoraA) || weight.name.ends_with(kLoraB)) continue;
    const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
    if (!weight.name.ends_with(".weight") || !by_name.contains(layer + kLoraA)) {
      out.push_back(weight);
      continue;
    }
    const at::Tensor down = tensor_of(weight_in(by_name, layer + kLoraA));
    const at::Tensor up = tensor_of(weight_in(by_name, layer + kLoraB));
    const at::Tensor merged = tensor_of(weight.array).add(up.mm(down).mul(lora.scale()));
    out.push_back({weight.name, array_of(merged, weight.name)});
  }
  return out;
}

void write_adapter(FolderWriter& writer, const std::vector<NamedArray>& adapter,
                   const nlohmann::json& config) {
  std::vector<NamedArray> stored;
  for (const NamedArray& weight : adapter) {
    stored.push_back({kAdapterPrefix + weight.name, weight.array});
  }
  writer.add_text(kAdapterConfig, config.dump(2) + "\n");
  writer.add_tensors(kAdapterWeights, stored);
}

}  // namespace accel
