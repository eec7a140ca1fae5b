#include "models/lora/lora_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/regex.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr auto kBias = ".bias";
/// PEFT's bias of a layer with an adapter.
constexpr auto kBaseBias = ".base_layer.bias";
/// In PEFT's names of the parameters of a layer with an adapter.
constexpr std::string_view kBaseLayer = ".base_layer";

std::string without_ending(const std::string& name, const std::string& ending) {
  return name.substr(0, name.size() - ending.size());
}

/// "classifier" for "classifier.weight".
std::string module_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

/// The folder's name of a layer.
std::string stored_layer(const std::string& layer, const HfNames& names) {
  return module_of(names.stored_name(layer + ".weight"));
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
LoraInit initial_weights(HfConfig& config) {
  constexpr auto kKey = "init_lora_weights";
  if (!config.has(kKey) || config.values().at(kKey).is_boolean()) return LoraInit::kDefault;
  const std::string how = config.text(kKey, "");
  if (how == "pissa") return LoraInit::kPissa;
  if (how == "olora") return LoraInit::kOlora;
  if (how == "gaussian") return LoraInit::kGaussian;
  if (how == "eva") config.ignore({"eva_config"});  // of the first matrix, which the folder has
  if (how == "eva" || how == "orthogonal") return LoraInit::kDefault;
  config.want(kKey, nullptr,
              "changes the weights of the base model in a way that is random or "
              "depends on data");
  return LoraInit::kDefault;
}

LoraBias bias_in(HfConfig& config) {
  const std::string bias = config.text("bias", "none");
  for (const auto& [value, name] : EnumNames<LoraBias>::kValues) {
    if (bias == name) return value;
  }
  config.refuse(text("'{}' has '{}' for 'bias', which PEFT lacks", config.path(), bias));
  return LoraBias::kNone;
}

/// The layers whose stored name PEFT's re.match() of a key finds: it compares the end of the name.
std::vector<std::string> matched_layers(const std::string& pattern,
                                        const std::vector<std::string>& layers,
                                        const HfNames& names) {
  const Regex wanted("\\A" + pcre_of_python("(.*\\.)?(" + pattern + ")$"));
  std::vector<std::string> out;
  for (const std::string& layer : layers) {
    const std::string name = stored_layer(layer, names);
    if (Regex::Search(wanted, name).next(0)) out.push_back(layer);
  }
  return out;
}

/// The numbers of `key`, by layer; PEFT names layers by regular expressions for the ends of their
/// names.
std::map<std::string, double> numbers_by_layer(HfConfig& config, const char* key,
                                               const std::vector<std::string>& layers,
                                               const HfNames& names) {
  std::map<std::string, double> out;
  const auto found = config.values().find(key);
  config.ignore({key});
  if (found == config.values().end() || !found->is_object()) return out;
  for (const auto& [pattern, number] : found->items()) {
    if (!number.is_number()) {
      config.refuse(text("'{}' has no number for '{}' in '{}'", config.path(), pattern, key));
      continue;
    }
    std::vector<std::string> matched;
    try {
      matched = matched_layers(pattern, layers, names);
    } catch (const FormatError& error) {
      config.refuse(
          text("'{}' has '{}' in '{}': it {}", config.path(), pattern, key, error.what()));
      continue;
    }
    for (const std::string& layer : matched) {
      const auto [place, fresh] = out.emplace(layer, number.get<double>());
      if (fresh || place->second == number.get<double>()) continue;
      config.refuse(text("'{}' has two numbers for '{}' in '{}'", config.path(), layer, key));
    }
  }
  return out;
}

/// The ranks of layers that differ from `rank`; those of the config must be those of the weights.
std::map<std::string, int64_t> ranks_in(HfConfig& config, const AdapterParts& parts,
                                        const HfNames& names, int64_t rank) {
  const auto given = numbers_by_layer(config, "rank_pattern", parts.targets, names);
  std::map<std::string, int64_t> out;
  for (const auto& [layer, weights_rank] : parts.ranks) {
    const auto found = given.find(layer);
    const auto wanted = found == given.end() ? rank : static_cast<int64_t>(found->second);
    if (weights_rank != wanted) {
      config.refuse(text("'{}' gives '{}' the rank {}, and its weights have {}", config.path(),
                         layer, wanted, weights_rank));
    }
    if (weights_rank != rank) out[layer] = weights_rank;
  }
  return out;
}

/// The weights of `modules_to_save`: with `bias`, a bias without a weight beside it is none of
/// them.
std::vector<std::string> saved_modules(const AdapterParts& parts, LoraBias bias) {
  std::vector<std::string> out = parts.others;
  if (bias == LoraBias::kNone) return out;
  const std::set<std::string> others(out.begin(), out.end());
  std::erase_if(out, [&](const std::string& name) {
    return name.ends_with(kBias) && !others.contains(module_of(name) + ".weight");
  });
  return out;
}

bool adapts_vocabulary(const AdapterParts& parts) {
  return std::any_of(parts.targets.begin(), parts.targets.end(), [](const std::string& layer) {
    return layer == kLanguageHead || layer.ends_with("embed_tokens") || layer.ends_with(".wte");
  });
}

/// The config's options, and ranks and layers of the weights.
LoraOptions options_in(HfConfig& config, const AdapterParts& parts, const HfNames& names) {
  constexpr auto kNotBuilt = "this program does not do";
  if (const std::string type = config.text("peft_type", ""); type != "LORA") {
    config.refuse(text("'{}' is of a '{}', not of a 'LORA'", config.path(), type));
  }
  config.want("use_qalora", false, kNotBuilt);
  // Of which layers the adapter is, its weights say; the others describe the file.
  if (adapts_vocabulary(parts)) {
    config.want("ensure_weight_tying", false, "shares one adapter between embedding and head");
  }
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
  options.dora = config.flag("use_dora", false);
  options.lora_bias = config.flag("lora_bias", false);
  options.bias = bias_in(config);
  options.init = initial_weights(config);
  options.target_modules = parts.targets;
  options.alpha_pattern = numbers_by_layer(config, "alpha_pattern", parts.targets, names);
  options.rank_pattern = ranks_in(config, parts, names, options.rank);
  options.modules_to_save = {saved_modules(parts, options.bias)};
  config.refuse_unknown_keys();
  return options;
}

}  // namespace

bool is_of_adapter(const std::string& name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB) || name.ends_with(kLoraBias) ||
         name.ends_with(kLoraMagnitude) || name.ends_with(kLoraEmbeddingA) ||
         name.ends_with(kLoraEmbeddingB);
}

bool is_trained_bias(const std::string& name, const LoraOptions& lora,
                     const std::set<std::string>& adapted) {
  if (lora.bias == LoraBias::kNone || is_of_adapter(name) || !name.ends_with(kBias)) return false;
  return lora.bias == LoraBias::kAll || adapted.contains(module_of(name));
}

std::set<std::string> adapted_layers(const std::vector<NamedArray>& weights) {
  std::set<std::string> out;
  for (const NamedArray& weight : weights) {
    for (const char* ending : {kLoraA, kLoraEmbeddingA}) {
      if (weight.name.ends_with(ending)) out.insert(without_ending(weight.name, ending));
    }
  }
  return out;
}

HfConfig read_adapter_config(const std::string& folder) {
  const std::string path = folder + "/" + kAdapterConfig;
  return {as_text(map_file(path).view), path};
}

namespace {

/// With `bias: all`, PEFT stores the biases of `modules_to_save` again as those of its wrappers:
/// "classifier.bias" is also "classifier.modules_to_save.bias", and that of the base model is
/// "classifier.original_module.bias".
void drop_wrapped_biases(HfWeights& weights) {
  std::set<std::string> names;
  for (const NamedArray& weight : weights.tensors()) names.insert(weight.name);
  std::vector<NamedArray> kept = weights.tensors();
  std::erase_if(kept, [&](const NamedArray& weight) {
    for (const std::string_view wrapper : {".modules_to_save", ".original_module"}) {
      const size_t at = weight.name.rfind(std::string(wrapper) + ".");
      if (at == std::string::npos || !weight.name.ends_with(kBias)) continue;
      if (names.contains(std::string(weight.name).erase(at, wrapper.size()))) return true;
    }
    return false;
  });
  weights.replace(std::move(kept));
}

}  // namespace

HfWeights read_adapter_weights(const std::string& folder) {
  HfWeights out(folder, kAdapterWeights, kAdapterPrefix);
  drop_wrapped_biases(out);
  out.rename([](const std::string& name) {
    const size_t base = name.rfind(kBaseLayer);
    return base == name.npos ? name : std::string(name).erase(base, kBaseLayer.size());
  });
  return out;
}

namespace {

/// The model's name of a weight of the folder, which may be that of the model without its head.
std::string name_in_model(const std::string& name, const HfNames& names) {
  const bool is_head = matches_any(names.heads, name) || module_of(name) == kLanguageHead ||
                       module_of(module_of(name)) == kLanguageHead;
  return names.model_name(name.starts_with(names.base) || is_head ? name : names.base + name);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr auto kTies = "ensure_weight_tying";

/// Whether PEFT's `ensure_weight_tying` acts: on embeddings of this name alone.
bool can_tie(const std::string& table) {
  return table.ends_with("embed_tokens.weight");
}

bool are_equal(const std::string& folder, const HfNames& names, const std::string& a,
               const std::string& b) {
  const HfWeights weights = read_adapter_weights(folder);
  const auto find = [&](const std::string& wanted) {
    return std::find_if(weights.tensors().begin(), weights.tensors().end(),
                        [&](const auto& item) { return name_in_model(item.name, names) == wanted; })
        ->array;
  };
  const Array left = find(a), right = find(b);
  return left.type() == right.type() && left.shape() == right.shape() &&
         std::memcmp(left.data(), right.data(), left.bytes()) == 0;
}

/// Refuses folders in which an embedding and the head that is tied to it are trained apart. Of two
/// equal weights, the head's is dropped.
void check_tying(HfConfig& config, const std::string& folder, const HfNames& names,
                 AdapterParts& parts) {
  const std::string& table = names.tied_table;
  if (table.empty()) return;
  const std::string head = std::string(kLanguageHead) + ".weight";
  const bool has_table = contains(parts.others, table), has_head = contains(parts.others, head);
  if (!has_table && !has_head) return;
  const bool is_tied = has_table && can_tie(table) && config.flag(kTies, false);
  if (has_table != has_head && !is_tied) {
    return config.refuse(
        text("'{}' trains '{}' alone, and '{}', which is tied to it, keeps its "
             "weight",
             config.path(), has_table ? table : head, has_table ? head : table));
  }
  if (has_table && has_head && !are_equal(folder, names, table, head)) {
    return config.refuse(
        text("'{}' has another '{}' than '{}', which are tied here", config.path(), head, table));
  }
  std::erase(parts.others, head);
}

/// PEFT factors the weight of a Conv1D of GPT-2 as it is stored, [in, out], and its adapter is of
/// the transposed one.
bool turns_olora(const HfNames& names, LoraInit init, const std::string& layer) {
  return init == LoraInit::kOlora && matches_any(names.transposed, layer + ".weight");
}

}  // namespace

AdapterParts read_adapter_parts(const std::string& folder, const HfNames& names) {
  const HfWeights weights = read_adapter_weights(folder);
  AdapterParts out;
  for (const NamedArray& weight : weights.tensors()) {
    const std::string name = name_in_model(weight.name, names);
    for (const char* ending : {kLoraA, kLoraEmbeddingA}) {
      if (!name.ends_with(ending)) continue;
      out.targets.push_back(without_ending(name, ending));
      out.ranks[out.targets.back()] = weight.array.shape().front();
    }
    if (!is_of_adapter(name)) out.others.push_back(name);
  }
  std::erase_if(out.others, [&](const std::string& name) {
    return name.ends_with(".weight") && out.ranks.contains(module_of(name));
  });
  if (out.targets.empty()) {
    throw DataError(text("'{}/{}' has no 'lora_A' of any layer", folder, kAdapterWeights),
                    "give the folder of an adapter that PEFT or 'accel-run export' wrote");
  }
  return out;
}

std::set<std::string> stored_base_weights(const std::string& folder, const HfNames& names) {
  const HfWeights weights = read_adapter_weights(folder);
  std::set<std::string> adapted;
  for (const std::string& layer : adapted_layers(weights.tensors())) {
    adapted.insert(name_in_model(layer + ".weight", names));
  }
  std::set<std::string> out;
  for (const NamedArray& weight : weights.tensors()) {
    const std::string name = name_in_model(weight.name, names);
    if (adapted.contains(name)) out.insert(name);
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
    AdapterParts parts = read_adapter_parts(folder, names);
    check_tying(config, folder, names, parts);
    out = options_in(config, parts, names);
    for (const std::string& layer : parts.targets) {
      if (!turns_olora(names, out.init, layer)) continue;
      config.refuse(
          text("'{}' has 'init_lora_weights: olora' for '{}', whose stored weight is "
               "transposed: PEFT factors the weight of another layer",
               config.path(), layer));
      break;
    }
    const bool adapts_head = std::any_of(
        parts.targets.begin(), parts.targets.end(),
        [&](const std::string& layer) { return matches_any(names.heads, layer + ".weight"); });
    // Then the folder has all that is trained of the head.
    if (adapts_head) out.modules_to_save = {parts.others};
    for (const std::string& problem : config.problems()) reading.problems.error(where, problem);
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
  const std::set<std::string> adapted = adapted_layers(weights);
  for (const NamedArray& weight : weights) {
    const bool is_saved =
        matches_any(also, weight.name) && !adapted.contains(module_of(weight.name));
    const bool is_trained =
        is_of_adapter(weight.name) || is_saved || is_trained_bias(weight.name, lora, adapted);
    if (is_trained) out.push_back(weight);
  }
  return out;
}

namespace {

/// PEFT's name of an adapter's weight without kAdapterPrefix: "query.base_layer.bias" of an adapted
/// layer's bias.
std::string peft_name(const std::string& name, const std::set<std::string>& adapted) {
  const std::string layer = module_of(name);
  return name == layer + kBias && adapted.contains(layer) ? layer + kBaseBias : name;
}

/// Throws Error (kRecipe) for an adapter that PEFT would load into other weights.
void check_olora(LoraInit init, const std::string& layer, const HfNames& names) {
  if (!turns_olora(names, init, layer)) return;
  throw Error(ExitCode::kRecipe,
              text("PEFT cannot load the adapter of '{}': its olora factors the stored weight, "
                   "which is transposed",
                   layer),
              "export the merged model with '--merge'");
}

}  // namespace

json adapter_config(const LoraOptions& lora, const std::vector<NamedArray>& adapter,
                    const HfNames& names, const std::string& base) {
  json targets = json::array(), ranks = json::object(), alphas = json::object();
  std::set<std::string> others, weights;
  bool transposed = false, ties = false;
  for (const NamedArray& weight : adapter) weights.insert(weight.name);
  for (const NamedArray& weight : adapter) {
    const std::string module = module_of(weight.name);
    const bool by_bias = lora.bias != LoraBias::kNone && weight.name.ends_with(kBias) &&
                         !weights.contains(module + ".weight");
    if (!is_of_adapter(weight.name) && !by_bias) others.insert(stored_layer(module, names));
    ties = ties || weight.name == names.tied_table;
    const bool is_embedding = weight.name.ends_with(kLoraEmbeddingA);
    if (!is_embedding && !weight.name.ends_with(kLoraA)) continue;
    const std::string layer = without_ending(weight.name, is_embedding ? kLoraEmbeddingA : kLoraA);
    check_olora(lora.init, layer, names);
    const std::string stored = stored_layer(layer, names);
    targets.push_back(stored);
    const LoraOptions own = lora.for_layer(layer);
    if (own.rank != lora.rank) ranks[stored] = own.rank;
    if (!lora.alpha_pattern.empty() && *own.alpha != lora.alpha.value_or(double(lora.rank))) {
      alphas[stored] = *own.alpha;
    }
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
                 {"rank_pattern", ranks},
                 {"alpha_pattern", alphas},
                 {"use_dora", lora.dora},
                 {"lora_bias", lora.lora_bias},
                 {"bias", Codec<LoraBias>::write(lora.bias).scalar()->text},
                 {"modules_to_save", nullptr}};
  if (lora.init != LoraInit::kDefault) {
    config["init_lora_weights"] = Codec<LoraInit>::write(lora.init).scalar()->text;
  }
  if (alpha == std::floor(alpha)) config["lora_alpha"] = static_cast<int64_t>(alpha);
  if (!base.empty()) config["base_model_name_or_path"] = base;
  if (ties && can_tie(names.tied_table)) config[kTies] = true;
  if (ties && !can_tie(names.tied_table)) others.insert(kLanguageHead);
  if (!others.empty()) config["modules_to_save"] = others;
  return config;
}

std::vector<NamedArray> stored_adapter(const std::vector<NamedArray>& adapter,
                                       const HfNames& names) {
  const std::set<std::string> adapted = adapted_layers(adapter);
  std::vector<NamedArray> out;
  for (const NamedArray& weight : adapter) {
    const std::string name = names.stored_name(peft_name(weight.name, adapted));
    out.push_back({kAdapterPrefix + name, weight.array});
    if (weight.name != names.tied_table) continue;
    out.push_back({std::string(kAdapterPrefix) + kLanguageHead + ".weight", weight.array});
  }
  return out;
}

}  // namespace accel
