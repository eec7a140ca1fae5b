#include "models/hf/hf_config.h"

#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/base/whole_number.h"
#include "formats/strict_json.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kConfigDepth = 32;
constexpr size_t kMaxConfigBytes = size_t{64} << 20;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() <= 80) return text;
  text.resize(77);
  return text.append("...");
}

/// Keys of transformers' PreTrainedConfig, of generation and of other programs that do not change
/// what a model computes in training.
const std::set<std::string, std::less<>>& keys_without_effect() {
  static const std::set<std::string, std::less<>> kKeys = {
      // what the folder is
      "_commit_hash", "_num_labels", "_name_or_path", "architectures", "custom_pipelines", "dtype",
      "finetuning_task", "keys_to_ignore_at_inference", "language", "model_type", "name",
      "name_or_path", "prefix", "sbert_ce_default_activation_function", "sentence_transformers",
      "task_specific_params", "tokenizer_class", "torch_dtype", "transformers.js_config",
      "transformers_version", "unsloth_fixed", "unsloth_version",
      // how it is computed
      "_attn_implementation", "_flash_attn_2_enabled", "_attn_implementation_autoset",
      "attn_implementation", "base_model_pp_plan", "base_model_tp_plan", "chunk_size_feed_forward",
      "gradient_checkpointing", "output_attentions", "output_hidden_states", "output_past",
      "pretraining_tp", "return_dict", "torchscript", "use_bfloat16", "use_cache",
      // initial weights
      "initializer_factor", "initializer_range",
      // labels and token ids
      "bos_token_id", "cls_token_id", "decoder_start_token_id", "eos_token_id",
      "forced_bos_token_id", "forced_eos_token_id", "id2label", "label2id", "mask_token_id",
      "num_labels", "pad_token_id", "sep_token_id", "tie_encoder_decoder", "unk_token_id",
      // generation
      "bad_words_ids", "begin_suppress_tokens", "cache_implementation", "diversity_penalty",
      "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "epsilon_cutoff", "eta_cutoff",
      "exponential_decay_length_penalty", "length_penalty", "max_length", "max_new_tokens",
      "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
      "output_scores", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
      "suppress_tokens", "temperature", "top_k", "top_p", "typical_p"};
  return kKeys;
}

bool is_unset(const json& value) {
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

std::shared_ptr<const json> parse_config(std::string_view text, const std::string& path) {
  if (text.size() > kMaxConfigBytes) {
    throw DataError(
        accel::text("'{}' has {} bytes, too many for the config of a model", path, text.size()));
  }
  try {
    MemoryBudget budget(8 * text.size(), single_quoted(path));
    return std::make_shared<const json>(
        parse_strict_json(text, single_quoted(path), kConfigDepth, budget));
  } catch (const FormatError& error) {
    throw DataError(error.what());
  }
}

}  // namespace

HfConfig::HfConfig(const std::string& folder) : path_(folder + "/config.json") {
  const SharedBytes file = map_file(path_);
  values_ = parse_config(as_text(file.view), path_);
}

HfConfig::HfConfig(std::string_view text, std::string path) : path_(std::move(path)) {
  values_ = parse_config(text, path_);
}

const json* HfConfig::find(const char* key) const {
  known_.insert(key);
  const auto found = values_->find(key);
  return found == values_->end() || found->is_null() ? nullptr : &*found;
}

bool HfConfig::has(const char* key) const {
  return find(key) != nullptr;
}

bool HfConfig::states(const char* key) const {
  return values_->contains(key);
}

std::string HfConfig::model_type() const {
  const json* value = find("model_type");
  return value && value->is_string() ? value->get<std::string>() : "";
}

std::string HfConfig::architecture() const {
  const json* value = find("architectures");
  if (!value || !value->is_array() || value->empty() || !value->front().is_string()) return "";
  return value->front().get<std::string>();
}

void HfConfig::wrong_type(const char* key, const char* wanted) {
  const json* value = find(key);
  refuse(value ? accel::text("'{}' has {} for '{}', which must be {}", path_, shown(*value), key,
                             wanted)
               : accel::text("'{}' lacks '{}', which must be {}", path_, key, wanted));
}

int64_t HfConfig::integer(const char* key) {
  const json* value = find(key);
  if (const auto number = value ? whole_number<int64_t>(*value) : std::nullopt) return *number;
  wrong_type(key, "a whole number");
  return 0;
}

int64_t HfConfig::integer(const char* key, int64_t fallback) {
  return has(key) ? integer(key) : fallback;
}

std::vector<int64_t> HfConfig::integers(const char* key) {
  const json* value = find(key);
  if (!value) return {};
  std::vector<int64_t> out;
  for (const json& item : *value) {
    const auto number = whole_number<int64_t>(item);
    if (!value->is_array() || !number) {
      wrong_type(key, "a list of whole numbers");
      return {};
    }
    out.push_back(*number);
  }
  return out;
}

std::vector<std::string> HfConfig::texts(const char* key) {
  const json* value = find(key);
  if (!value) return {};
  std::vector<std::string> out;
  for (const json& item : *value) {
    if (!value->is_array() || !item.is_string()) {
      wrong_type(key, "a list of texts");
      return {};
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

double HfConfig::number(const char* key, double fallback) {
  const json* value = find(key);
  if (!value) return fallback;
  if (value->is_number()) return value->get<double>();
  wrong_type(key, "a number");
  return fallback;
}

bool HfConfig::flag(const char* key, bool fallback) {
  const json* value = find(key);
  if (!value) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(key, "true or false");
  return fallback;
}

std::string HfConfig::text(const char* key, const std::string& fallback) {
  const json* value = find(key);
  if (!value) return fallback;
  if (value->is_string()) return value->get<std::string>();
  wrong_type(key, "a text");
  return fallback;
}

HfConfig HfConfig::section(const char* key) {
  const json* value = find(key);
  if (value && !value->is_object()) wrong_type(key, "a section");
  const std::string text = value && value->is_object() ? value->dump() : "{}";
  return {text, path_};
}

void HfConfig::refuse_unknown_keys() {
  for (const auto& [key, value] : values_->items()) {
    if (is_unset(value) || known_.contains(key) || keys_without_effect().contains(key)) continue;
    refuse(accel::text("'{}' has {} for '{}', a key whose effect on the model is not known here",
                       path_, shown(value), key));
  }
}

void HfConfig::want(const char* key, const json& wanted, const char* why) {
  const json* value = find(key);
  if (!value || *value == wanted) return;
  refuse(accel::text("'{}' has {} for '{}', which {}", path_, shown(*value), key, why));
}

}  // namespace accel
