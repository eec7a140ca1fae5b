#include "models/lora_folder.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/name_pattern.h"
#include "models/lora_options.h"

namespace accel {
namespace {

using nlohmann::json;

std::string without_ending(const std::string& name, const std::string& ending) {
  return name.substr(0, name.size() - ending.size());
}

/// "classifier" of "classifier.weight".
std::string module_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

bool is_of_adapter(const std::string& name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB);
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  for (const std::string& pattern : patterns) {
    if (name_matches(pattern, name)) return true;
  }
  return false;
}

}  // namespace

HfConfig read_adapter_config(const std::string& folder) {
  const std::string path = folder + "/" + kAdapterConfig;
  return {as_text(map_file(path).view), path};
}

HfWeights read_adapter_weights(const std::string& folder) {
  return {folder, kAdapterWeights, kAdapterPrefix};
}

AdapterParts read_adapter_parts(const std::string& folder, const HfNames& names) {
  const HfWeights weights = read_adapter_weights(folder);
  AdapterParts out;
  for (const NamedArray& weight : weights.tensors()) {
    const bool headless =
        !weight.name.starts_with(names.base) && !matches_any(names.heads, weight.name);
    const std::string name = (headless ? names.base : "") + weight.name;
    if (name.ends_with(kLoraA)) out.targets.push_back(without_ending(name, kLoraA));
    if (!is_of_adapter(name)) out.others.push_back(name);
  }
  if (out.targets.empty()) {
    throw DataError("'" + folder + "/" + kAdapterWeights + "' has no 'lora_A' of any layer");
  }
  return out;
}

std::vector<NamedArray> adapter_weights(const std::vector<NamedArray>& weights,
                                        const LoraOptions& lora) {
  const std::vector<std::string> also = lora.also.value_or({});
  std::vector<NamedArray> out;
  for (const NamedArray& weight : weights) {
    if (is_of_adapter(weight.name) || matches_any(also, weight.name)) out.push_back(weight);
  }
  return out;
}

json adapter_config(const LoraOptions& lora, const std::vector<NamedArray>& adapter,
                    const HfNames& names, const std::string& base) {
  json targets = json::array();
  std::set<std::string> others;
  bool transposed = false;
  for (const NamedArray& weight : adapter) {
    if (!is_of_adapter(weight.name)) others.insert(module_of(weight.name));
    if (!weight.name.ends_with(kLoraA)) continue;
    const std::string layer = without_ending(weight.name, kLoraA);
    targets.push_back(layer);
    transposed = transposed || matches_any(names.transposed, layer + ".weight");
  }
  const double alpha = lora.alpha.value_or(static_cast<double>(lora.rank));
  json config = {{"peft_type", "LORA"},
                 {"task_type", nullptr},
                 {"base_model_name_or_path", nullptr},
                 {"inference_mode", true},
                 {"r", lora.rank},
                 {"lora_alpha", alpha},
                 {"lora_dropout", lora.dropout},
                 {"use_rslora", lora.rslora},
                 {"target_modules", targets},
                 {"fan_in_fan_out", transposed},
                 {"bias", "none"},
                 {"modules_to_save", nullptr}};
  if (alpha == std::floor(alpha)) config["lora_alpha"] = static_cast<int64_t>(alpha);
  if (!base.empty()) config["base_model_name_or_path"] = base;
  if (!others.empty()) config["modules_to_save"] = others;
  return config;
}

}  // namespace accel
