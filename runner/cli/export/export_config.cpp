#include "runner/cli/export/export_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "infer/generation_config.h"
#include "models/encoder_head.h"
#include "models/lora/lora_folder.h"
#include "text/tokenizer.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Writes the class names of the data to id2label and label2id.
void name_labels(const std::vector<std::string>& labels, json& config) {
  const std::string architecture = config["architectures"].front().get<std::string>();
  const auto classes = config.find("id2label");
  if (!architecture.ends_with("Classification") || classes->size() != labels.size()) return;
  json names = json::object(), numbers = json::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    numbers[labels[i]] = i;
  }
  config["id2label"] = names;
  config["label2id"] = numbers;
}

/// The config of the initial weights, if it still exists: it has keys that are not options of the
/// model, such as class names.
json base_config(const ExportSource& source) {
  std::error_code error;
  if (source.base.empty() || !fs::exists(source.base + "/config.json", error)) {
    return json::object();
  }
  const HfConfig config(source.base);
  return source.family->reads(config.model_type()) ? config.values() : json::object();
}

/// Start and end tokens of the data's tokenizer, for a model that was trained from scratch:
/// transformers' generate() ends texts by the config alone.
void name_special_tokens(const ExportSource& source, json& config) {
  std::error_code error;
  if (!source.base.empty() || source.tokenizers.size() != 1) return;
  const std::string& path = *source.tokenizers.begin();
  if (!fs::exists(path, error)) return;  // a warning when it is copied
  const SpecialTokens special = load_tokenizer(path)->special();
  const std::pair<const char*, std::optional<int32_t>> tokens[] = {{"bos_token_id", special.bos},
                                                                   {"eos_token_id", special.eos}};
  for (const auto& [key, id] : tokens) {
    if (id && *id < config.value("vocab_size", 0) && config[key].is_null()) config[key] = *id;
  }
}

/// Whether both name one activation function.
bool are_synonyms(const json& a, const json& b) {
  static const std::vector<std::set<std::string>> kGroups = {
      {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}, {"silu", "swish"}};
  return a.is_string() && b.is_string() &&
         std::any_of(kGroups.begin(), kGroups.end(), [&](const std::set<std::string>& group) {
           return group.contains(a.get<std::string>()) && group.contains(b.get<std::string>());
         });
}

/// The value that transformers derives for a key that is null or absent; null for other keys.
json derived_value(const json& config, const std::string& key) {
  const auto number = [&](const char* of) { return config.value(of, int64_t{0}); };
  if (key == "classifier_dropout") return config.value("hidden_dropout_prob", json());
  if (key == "n_inner") return 4 * number("n_embd");
  if (key == "attention_bias" || key == "mlp_bias") return false;
  const int64_t heads = number("num_attention_heads");
  if (key == "head_dim" && heads > 0) return number("hidden_size") / heads;
  return nullptr;
}

/// Gives the keys of `config` the spelling of `source`, a config of the same model, where that has
/// the same effect: synonyms of activations, and derived values that are null or absent there.
void keep_spelling(const json& source, json& config) {
  if (source.value("model_type", "") != config.value("model_type", "")) return;
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function", "activation"}) {
    if (source.contains(key) && config.contains(key) && are_synonyms(source[key], config[key])) {
      config[key] = source[key];
    }
  }
  for (const char* key :
       {"classifier_dropout", "n_inner", "attention_bias", "mlp_bias", "head_dim"}) {
    if (!config.contains(key) || config[key] != derived_value(config, key)) continue;
    if (!source.contains(key)) {
      config.erase(key);
    } else if (source[key].is_null()) {
      config[key] = nullptr;
    }
  }
}

}  // namespace

json exported_generation_config(const json& config) {
  json out = generation_keys_in(config);
  out["_from_model_config"] = true;
  if (config.contains("pad_token_id") && !config["pad_token_id"].is_null()) {
    out["pad_token_id"] = config["pad_token_id"];
  }
  return out;
}

Node untied_options(const ExportSource& source, const WeightShapes& shapes) {
  Node out = source.options;
  const bool is_untied = !source.family->names(out).tied_table.empty() &&
                         shapes.contains(std::string(kLanguageHead) + ".weight");
  Node::Entry* const tied = out.find("tie_embeddings");
  if (is_untied && tied) tied->node = scalar_node("false");
  return out;
}

json exported_config(const ExportSource& source, const Node& options, const WeightShapes& shapes) {
  const json base = base_config(source);
  json config = base;
  config.erase("torch_dtype");
  config.erase("quantization_config");  // the weights are float32
  config["dtype"] = "float32";
  if (source.family->generates) {
    // transformers has defaults of some families, which may be outside the vocabulary.
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      config.emplace(key, nullptr);
    }
  }
  source.family->write_config(options, shapes, config);
  if (source.family->generates) name_special_tokens(source, config);
  keep_spelling(base, config);
  name_labels(source.labels, config);
  const std::string architecture =
      architecture_for_task(config["architectures"].front().get<std::string>(), source.task);
  config["architectures"] = {architecture};
  if (architecture.ends_with("SequenceClassification") ||
      architecture.ends_with("ImageClassification")) {
    if (!source.problem_type.empty()) config["problem_type"] = source.problem_type;
  }
  return config;
}

}  // namespace accel
