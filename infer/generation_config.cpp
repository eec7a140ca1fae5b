#include "infer/generation_config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using nlohmann::json;
using Ids = std::vector<int64_t>;

/// Keys that select no tokens: caches, outputs, assisted decoding (which keeps the model's tokens),
/// and padding.
constexpr std::array kWithoutEffect = {"use_cache",
                                       "cache_implementation",
                                       "cache_config",
                                       "max_cache_len",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_scores",
                                       "output_logits",
                                       "return_dict_in_generate",
                                       "pad_token_id",
                                       "is_assistant",
                                       "num_assistant_tokens",
                                       "num_assistant_tokens_schedule",
                                       "assistant_confidence_threshold",
                                       "assistant_early_exit",
                                       "assistant_lookbehind",
                                       "assistant_ensemble_weight",
                                       "target_lookbehind",
                                       "prompt_lookup_num_tokens",
                                       "max_matching_ngram_size",
                                       "speculation_type",
                                       "use_mtp",
                                       "compile_config",
                                       "disable_compile",
                                       "continuous_batching_config",
                                       "prefill_chunk_size",
                                       "low_memory",
                                       "_from_model_config",
                                       "transformers_version"};

/// Features that are not supported, with the value that turns each off (besides null).
const std::map<std::string_view, json>& unsupported() {
  static const std::map<std::string_view, json> keys = {{"guidance_scale", 1},
                                                        {"watermarking_config", nullptr},
                                                        {"penalty_alpha", 0},
                                                        {"dola_layers", nullptr},
                                                        {"diversity_penalty", 0},
                                                        {"num_beam_groups", 1},
                                                        {"constraints", nullptr},
                                                        {"force_words_ids", nullptr},
                                                        {"token_healing", false},
                                                        {"max_time", nullptr},
                                                        {"num_return_sequences", 1},
                                                        {"encoder_repetition_penalty", 1},
                                                        {"encoder_no_repeat_ngram_size", 0}};
  return keys;
}

/// Names the type of a key's value in an error.
struct WrongType {
  const char* wanted;
};

void read_value(const json& from, bool& to) {
  if (!from.is_boolean()) throw WrongType{"true or false"};
  to = from.get<bool>();
}
void read_value(const json& from, int64_t& to) {
  if (!from.is_number_integer()) throw WrongType{"an integer"};
  to = from.get<int64_t>();
}
void read_value(const json& from, double& to) {
  if (!from.is_number()) throw WrongType{"a number"};
  to = from.get<double>();
}
void read_value(const json& from, std::string& to) {
  if (!from.is_string()) throw WrongType{"a string, or a list of strings"};
  to = from.get<std::string>();
}
void read_value(const json& from, Ids& to) {
  to.clear();
  for (const json& id : from.is_array() ? from : json::array({from})) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0) {
      throw WrongType{"a token id, or a list of token ids"};
    }
    to.push_back(id.get<int64_t>());
  }
}
void read_value(const json& from, std::set<int64_t>& to) {
  Ids ids;
  read_value(from, ids);
  to = {ids.begin(), ids.end()};
}
void read_value(const json& from, std::vector<std::string>& to) {
  to.clear();
  for (const json& text : from.is_array() ? from : json::array({from})) {
    read_value(text, to.emplace_back());
  }
}
void read_value(const json& from, std::vector<Ids>& to) {
  to.clear();
  if (!from.is_array()) throw WrongType{"a list of lists of token ids"};
  for (const json& ids : from) {
    if (!ids.is_array() || ids.empty()) throw WrongType{"a list of lists of token ids"};
    read_value(ids, to.emplace_back());
  }
}
void read_value(const json& from, std::vector<SequenceBias>& to) {
  static constexpr WrongType kWrong{"a list of [[token ids], bias]"};
  to.clear();
  if (!from.is_array()) throw kWrong;
  for (const json& item : from) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_array() || item[0].empty() ||
        !item[1].is_number()) {
      throw kWrong;
    }
    SequenceBias& bias = to.emplace_back();
    read_value(item[0], bias.tokens);
    bias.bias = item[1].get<float>();
  }
}
void read_value(const json& from, std::pair<int64_t, double>& to) {
  if (!from.is_array() || from.size() != 2 || !from[0].is_number_integer() ||
      !from[1].is_number()) {
    throw WrongType{"[start, factor]"};
  }
  to = {from[0].get<int64_t>(), from[1].get<double>()};
}
void read_value(const json& from, EarlyStopping& to) {
  if (from.is_string() && from == "never") {
    to = EarlyStopping::kNever;
  } else if (from.is_boolean()) {
    to = from.get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kFalse;
  } else {
    throw WrongType{"true, false or \"never\""};
  }
}

template <class T>
void read_value(const json& from, std::optional<T>& to) {
  read_value(from, to.emplace());
}

using Reader = std::function<void(const json&, GenerationConfig&)>;

template <class T>
Reader into(T GenerationConfig::*member) {
  return [member](const json& from, GenerationConfig& to) { read_value(from, to.*member); };
}

const std::map<std::string_view, Reader>& readers() {
  using C = GenerationConfig;
  // Decoders do not use it: another type is no error.
  const Reader bos = [](const json& from, C& to) {
    if (from.is_number_integer()) to.bos_token_id = from.get<int64_t>();
  };
  static const std::map<std::string_view, Reader> keys = {
      {"bos_token_id", bos},
      {"decoder_start_token_id", into(&C::decoder_start_token_id)},
      {"max_new_tokens", into(&C::max_new_tokens)},
      {"max_length", into(&C::max_length)},
      {"min_length", into(&C::min_length)},
      {"min_new_tokens", into(&C::min_new_tokens)},
      {"eos_token_id", into(&C::eos_token_id)},
      {"stop_strings", into(&C::stop_strings)},
      {"num_beams", into(&C::num_beams)},
      {"length_penalty", into(&C::length_penalty)},
      {"early_stopping", into(&C::early_stopping)},
      {"do_sample", into(&C::do_sample)},
      {"temperature", into(&C::temperature)},
      {"top_k", into(&C::top_k)},
      {"top_p", into(&C::top_p)},
      {"top_h", into(&C::top_h)},
      {"min_p", into(&C::min_p)},
      {"typical_p", into(&C::typical_p)},
      {"epsilon_cutoff", into(&C::epsilon_cutoff)},
      {"eta_cutoff", into(&C::eta_cutoff)},
      {"sequence_bias", into(&C::sequence_bias)},
      {"repetition_penalty", into(&C::repetition_penalty)},
      {"no_repeat_ngram_size", into(&C::no_repeat_ngram_size)},
      {"bad_words_ids", into(&C::bad_words_ids)},
      {"forced_bos_token_id", into(&C::forced_bos_token_id)},
      {"forced_eos_token_id", into(&C::forced_eos_token_id)},
      {"remove_invalid_values", into(&C::remove_invalid_values)},
      {"exponential_decay_length_penalty", into(&C::exponential_decay_length_penalty)},
      {"suppress_tokens", into(&C::suppress_tokens)},
      {"begin_suppress_tokens", into(&C::begin_suppress_tokens)},
      {"renormalize_logits", into(&C::renormalize_logits)}};
  return keys;
}

void read_key(const std::string& key, const json& value, GenerationConfig& to) {
  if (value.is_null()) return;  // unset, as in transformers
  if (const auto reader = readers().find(key); reader != readers().end()) {
    return reader->second(value, to);
  }
  const auto off = unsupported().find(key);
  if (off != unsupported().end()) {
    if (value == off->second) return;
    throw DataError(text("'{}' is {}, which is not supported", key, value.dump()),
                    text("set it to {}, or remove it", off->second.dump()));
  }
  if (std::find(kWithoutEffect.begin(), kWithoutEffect.end(), key) == kWithoutEffect.end()) {
    throw DataError(text("'{}' is no key of a generation config", key), "remove it");
  }
}

[[noreturn]] void refuse(const char* key, const std::string& found, const char* wanted) {
  throw Error(ExitCode::kRecipe, text("'{}' is {}; it must be {}", key, found, wanted));
}

void check_between(const char* key, double value, double low, double high, const char* wanted) {
  if (!(value >= low && value <= high)) refuse(key, json(value).dump(), wanted);
}

}  // namespace

int64_t GenerationConfig::new_tokens(int64_t prompt, int64_t otherwise) const {
  if (max_new_tokens) return *max_new_tokens;
  if (!max_length) return otherwise;
  if (*max_length > prompt) return *max_length - prompt;
  throw Error(ExitCode::kRecipe,
              text("the prompt has {} tokens, and 'max_length' is {}", prompt, *max_length),
              "raise 'max_length', or set 'max_new_tokens'");
}

void GenerationConfig::check() const {
  static constexpr double kLargest = 1e30;
  check_between("temperature", temperature, 0, kLargest, "at least 0");
  check_between("top_k", static_cast<double>(top_k), 0, kLargest, "at least 0");
  check_between("top_p", top_p, 0, 1, "between 0 and 1");
  check_between("top_h", top_h.value_or(1), 1e-30, 1, "above 0 and at most 1");
  check_between("min_p", min_p.value_or(0), 0, 1, "between 0 and 1");
  check_between("typical_p", typical_p, 1e-30, kLargest, "above 0");
  check_between("repetition_penalty", repetition_penalty, 1e-30, kLargest, "above 0");
  check_between("num_beams", static_cast<double>(num_beams), 1, 1000, "between 1 and 1000");
  check_between("max_new_tokens", static_cast<double>(max_new_tokens.value_or(1)), 1, kLargest,
                "at least 1");
  for (const std::string& stop : stop_strings) {
    if (stop.empty()) refuse("stop_strings", "\"\"", "a text of one character or more");
  }
}

void read_generation_config(const json& config, const std::string& file, GenerationConfig& to) {
  if (!config.is_object()) throw DataError(text("{}: not a JSON object", file));
  for (const auto& [key, value] : config.items()) {
    try {
      read_key(key, value, to);
    } catch (const WrongType& wrong) {
      throw DataError(text("{}: '{}' is {}", file, key, value.dump()),
                      text("give {}", wrong.wanted));
    } catch (const DataError& error) {
      throw DataError(text("{}: {}", file, error.what()), error.hint());
    }
  }
}

void read_generation_config(const std::filesystem::path& file, GenerationConfig& to) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) {
    throw DataError(text("cannot read the generation config '{}'", file.string()),
                    "check its name");
  }
  read_generation_config(json::parse(in, nullptr, false), file.string(), to);
}

json generation_keys_in(const json& config) {
  json out = json::object();
  if (!config.is_object()) return out;
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || !(readers().contains(key) || unsupported().contains(key))) continue;
    out[key] = value;
  }
  return out;
}

std::string sampling_summary(const GenerationConfig& config) {
  const GenerationConfig usual;
  std::vector<std::string> keys;
  const auto add = [&](const char* key, auto value, auto otherwise) {
    if (value != otherwise) keys.push_back(text("{}: {}", key, json(value).dump()));
  };
  add("do_sample", config.do_sample, usual.do_sample);
  if (config.do_sample) {
    add("temperature", config.temperature, usual.temperature);
    add("top_k", config.top_k, int64_t{0});
    add("top_p", config.top_p, usual.top_p);
    add("top_h", config.top_h.value_or(0), 0.0);
    add("min_p", config.min_p.value_or(0), 0.0);
    add("typical_p", config.typical_p, usual.typical_p);
    add("epsilon_cutoff", config.epsilon_cutoff, usual.epsilon_cutoff);
    add("eta_cutoff", config.eta_cutoff, usual.eta_cutoff);
  }
  add("num_beams", config.num_beams, usual.num_beams);
  add("repetition_penalty", config.repetition_penalty, usual.repetition_penalty);
  add("no_repeat_ngram_size", config.no_repeat_ngram_size, usual.no_repeat_ngram_size);
  std::string out;
  for (const std::string& key : keys) out += (out.empty() ? "" : ", ") + key;
  return out;
}

}  // namespace accel
