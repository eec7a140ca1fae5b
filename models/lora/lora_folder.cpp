#include "models/lora/lora_folder.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"

namespace accel {
namespace {

using nlohmann::json;

std::string without_ending(const std::string& name, const std::string& ending) {
  return name.substr(0, name.size() - ending.size());
}

/// "classifier" for "classifier.weight".
std::string module_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

/// Checks that a given option equals the adapter's.
template <class T>
void check_same(const char* key, const T& here, const T& there, const Node& node,
                Reading& reading) {
  if (here == there) return;
  const Node::Entry* entry = node.find(key);
  reading.problems.error(
      entry ? entry->node.where : node.where,
      text("'{}' is {} here and {} in the adapter", key, detail::inline_text(Codec<T>::write(here)),
           detail::inline_text(Codec<T>::write(there))),
      "leave it out to take it from the adapter");
}

/// Those that change the base model's weights when PEFT loads the adapter.
void check_initial_weights(HfConfig& config) {
  constexpr auto kKey = "init_lora_weights";
  if (!config.has(kKey) || config.values().at(kKey).is_boolean()) return;
  const std::string how = config.text(kKey, "");
  if (how == "gaussian" || how == "eva" || how == "orthogonal") return;
  config.want(kKey, nullptr, "changes the weights of the base model, too");
}

LoraOptions options_in(HfConfig& config) {
  constexpr auto kNotBuilt = "this program does not do";
  if (const std::string type = config.text("peft_type", ""); type != "LORA") {
    config.refuse(text("'{}' is of a '{}', not of a 'LORA'", config.path(), type));
  }
  config.want("bias", "none", kNotBuilt);
  for (const char* key : {"use_dora", "lora_bias", "use_qalora"}) {
    config.want(key, false, kNotBuilt);
  }
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    config.want(key, json::object(), kNotBuilt);
  }
  check_initial_weights(config);
  // Of which layers the adapter is, its weights say; the others describe the file.
  config.ignore({"auto_mapping", "base_model_name_or_path", "ensure_weight_tying",
                 "exclude_modules", "fan_in_fan_out", "inference_mode", "layers_pattern",
                 "layers_to_transform", "megatron_config", "megatron_core", "modules_to_save",
                 "peft_version", "qalora_group_size", "revision", "runtime_config",
                 "target_modules", "task_type"});
  LoraOptions options;
  options.rank = config.integer("r");
  options.alpha = {config.number("lora_alpha", 8)};
  options.dropout = config.number("lora_dropout", 0);
  options.rslora = config.flag("use_rslora", false);
  config.refuse_unknown_keys();
  return options;
}

}  // namespace

bool is_of_adapter(const std::string& name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB);
}

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
    throw DataError(text("'{}/{}' has no 'lora_A' of any layer", folder, kAdapterWeights),
                    "give the folder of an adapter that PEFT or 'accel-run export' wrote");
  }
  return out;
}

LoraOptions with_adapter(const LoraOptions& given, const HfNames& names, const Node& node,
                         Reading& reading) {
  const std::string& folder = given.adapter.text;
  if (folder.empty()) return given;
  const Node::Entry* path = node.find("adapter");
  const Span where = path ? path->node.where : node.where;
  LoraOptions out;
  try {
    HfConfig config = read_adapter_config(folder);
    out = options_in(config);
    for (const std::string& problem : config.problems()) reading.problems.error(where, problem);
    const AdapterParts parts = read_adapter_parts(folder, names);
    out.target_modules = parts.targets;
    if (!parts.others.empty()) out.modules_to_save = {parts.others};
  } catch (const Error& error) {
    reading.problems.error(where, error.what(), error.hint());
    return given;
  }
  if (given.rank > 0) check_same("rank", given.rank, out.rank, node, reading);
  if (given.alpha) check_same("alpha", *given.alpha, *out.alpha, node, reading);
  if (given.rslora) check_same("rslora", given.rslora, out.rslora, node, reading);
  if (given.target_modules != LoraOptions().target_modules) {
    check_same("target_modules", given.target_modules, out.target_modules, node, reading);
  }
  if (given.modules_to_save) out.modules_to_save = given.modules_to_save;
  if (node.find("dropout")) out.dropout = given.dropout;
  out.adapter = given.adapter;
  return out;
}

std::vector<NamedArray> adapter_weights(const std::vector<NamedArray>& weights,
                                        const LoraOptions& lora) {
  const std::vector<std::string> also = lora.modules_to_save.value_or({});
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
