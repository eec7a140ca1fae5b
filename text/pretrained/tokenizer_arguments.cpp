#include "text/pretrained/tokenizer_arguments.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "text/json_node.h"

namespace accel {
namespace {

using ConfigJson = nlohmann::ordered_json;

constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";
constexpr const char* kOfModel = "model_specific_special_tokens";
constexpr int64_t kMostId = std::numeric_limits<int32_t>::max() - 1;

bool is_named_key(const std::string& key) {
  const auto& keys = special_token_keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// A token's object in `added_tokens_decoder` or of a special token.
void check_token_object(const JsonNode& node) {
  node.at("content").text();
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    node.flag_or(flag, false);
  }
}

void check_token(const JsonNode& node) {
  if (node.is_null()) return;
  if (node.is_object()) return check_token_object(node);
  node.text();
}

/// Refuses what is no token, and what transformers would do otherwise.
void check_tokens(const JsonNode& file) {
  for (const std::string& key : special_token_keys()) check_token(file.find(key));
  for (const char* key : {kExtra, kAdditional, kOfModel}) {
    const JsonNode tokens = file.find(key);
    if (tokens.is_null()) continue;
    if (tokens.is_object() && key != kAdditional) {
      for (const auto& [name, token] : tokens.json().items()) check_token(tokens.find(name));
      continue;
    }
    if (key == kOfModel) tokens.refuse("must be an object that maps names to tokens");
    for (const JsonNode& token : tokens.items()) check_token(token);
  }
}

/// `added_tokens_decoder` by id.
std::map<int64_t, AddedToken> read_decoder_tokens(const JsonNode& node) {
  std::map<int64_t, AddedToken> tokens;
  if (!node.is_object()) node.refuse("must be an object that maps ids to tokens");
  for (const auto& [id, value] : node.json().items()) {
    const JsonNode token = node.find(id);
    const bool is_id =
        !id.empty() && id.size() < 10 &&
        std::all_of(id.begin(), id.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
    if (!is_id) token.refuse("has no id for its key");
    check_token_object(token);
    tokens[std::stoll(id)] = read_token_object(ConfigJson::parse(value.dump()));
  }
  return tokens;
}

bool ends_with_token(const std::string& key) {
  return key.size() > 6 && key.ends_with("_token") && !is_named_key(key);
}

}  // namespace

const std::vector<std::string>& special_token_keys() {
  static const std::vector<std::string> keys = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                "pad_token", "cls_token", "mask_token"};
  return keys;
}

AddedToken read_token_object(const nlohmann::ordered_json& value) {
  AddedToken token;
  token.content = value.at("content").get<std::string>();
  const auto flag = [&](const char* name, bool otherwise) {
    const auto found = value.find(name);
    return found == value.end() || found->is_null() ? otherwise : found->get<bool>();
  };
  token.special = flag("special", false);
  token.single_word = flag("single_word", false);
  token.lstrip = flag("lstrip", false);
  token.rstrip = flag("rstrip", false);
  token.normalized = flag("normalized", !token.special);
  return token;
}

AddedToken special_token(const std::string& content) {
  AddedToken token;
  token.content = content;
  token.special = true;
  return token;
}

TokenizerArguments TokenizerArguments::read(const std::filesystem::path& folder) {
  TokenizerArguments out;
  const auto config = folder / "tokenizer_config.json";
  std::string config_text;
  if (std::filesystem::exists(config)) {
    read_json_file(config, [&](const JsonNode& file, std::string_view text) {
      check_tokens(file);
      const JsonNode inputs = file.find("init_inputs");
      if (!inputs.is_null() && !inputs.items().empty()) inputs.refuse("is not supported");
      if (file.json().contains("added_tokens_decoder")) {
        for (auto& [id, token] : read_decoder_tokens(file.at("added_tokens_decoder"))) {
          out.added_.push_back(std::move(token));
          out.added_.back().id = static_cast<int32_t>(id);
        }
      }
      config_text = text;
      out.config_ = ConfigJson::parse(text);
    });
  }
  out.values_ = out.config_;
  ConfigJson& values = out.values_;
  for (const char* key : {"tokenizer_class", "init_inputs", "add_bos_token", "add_eos_token"}) {
    values.erase(key);
  }
  const auto is_empty = [&](const char* key) {
    return !values.contains(key) || values[key].is_null() || values[key].empty();
  };
  if (values.contains(kAdditional) && is_empty(kExtra)) {
    values[kExtra] = values[kAdditional];
    values.erase(kAdditional);
  }
  ConfigJson of_model = ConfigJson::object();
  for (const auto& [key, value] : out.config_.items()) {
    if (!ends_with_token(key) || !value.is_string()) continue;
    of_model[key] = value;
    values.erase(key);
  }
  if (values.contains(kExtra) && values[kExtra].is_object()) {
    of_model.update(values[kExtra]);
    values.erase(kExtra);
  }
  if (!of_model.empty()) values[kOfModel] = std::move(of_model);
  if (!out.has_decoder()) {
    out.read_map(folder / "special_tokens_map.json");
    out.sources_ += config_text;
    out.read_added(folder / "added_tokens.json");
  } else {
    out.sources_ += config_text;
  }
  return out;
}

void TokenizerArguments::read_map(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  ConfigJson map;
  read_json_file(path, [&](const JsonNode& file, std::string_view text) {
    check_tokens(file);
    sources_ += text;
    map = ConfigJson::parse(text);
  });
  for (auto& [key, value] : map.items()) {
    if (value.is_object() && value.contains("content")) {
      value["special"] = true;
    } else if (key == kExtra && value.is_array()) {
      ConfigJson all = values_.contains(kExtra) && values_[kExtra].is_array() ? values_[kExtra]
                                                                              : ConfigJson::array();
      for (ConfigJson& token : value) {
        if (token.is_object()) token["special"] = true;
        if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
      }
      value = std::move(all);
    }
    values_[key] = value;
  }
  if (values_.contains(kExtra) && values_[kExtra].is_object()) {
    values_[kOfModel].update(values_[kExtra]);
    values_.erase(kExtra);
  }
}

void TokenizerArguments::read_added(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  std::vector<std::string> special;
  for (const std::string& key : special_token_keys()) {
    if (const auto named = token(key)) special.push_back(named->token.content);
  }
  if (values_.contains(kExtra)) {  // transformers does not look at `additional_special_tokens` here
    for (const NamedToken& named : list(kExtra)) special.push_back(named.token.content);
  }
  std::map<int64_t, AddedToken> tokens;
  read_json_file(path, [&](const JsonNode& file, std::string_view text) {
    sources_ += text;
    for (const auto& [content, value] : file.json().items()) {
      AddedToken token;
      token.content = content;
      token.special = std::find(special.begin(), special.end(), content) != special.end();
      token.normalized = !token.special;
      tokens[file.find(content).integer(0, kMostId)] = std::move(token);
    }
  });
  for (auto& [id, token] : tokens) {
    token.id = static_cast<int32_t>(id);
    added_.push_back(std::move(token));
  }
}

bool TokenizerArguments::flag(const std::string& key, bool otherwise) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->is_null()) return otherwise;
  const nlohmann::json value(nlohmann::json::parse(found->dump()));
  return JsonNode(value, key).flag();
}

int64_t TokenizerArguments::count(const std::string& key, int64_t otherwise) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return otherwise;
  const nlohmann::json value(nlohmann::json::parse(found->dump()));
  return JsonNode(value, key).integer(0, kMostId);
}

NamedToken TokenizerArguments::named(const std::string& key, const ConfigJson& value) const {
  if (value.is_object()) return {key, read_token_object(value), true};
  for (const AddedToken& token : added_) {
    if (token.content == value.get_ref<const std::string&>()) return {key, token, true};
  }
  return {key, special_token(value.get<std::string>()), false};
}

std::optional<NamedToken> TokenizerArguments::token(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->is_null()) return std::nullopt;
  return named(key, *found);
}

std::vector<NamedToken> TokenizerArguments::model_tokens() const {
  std::vector<NamedToken> tokens;
  for (const auto& [key, value] : values_.items()) {
    const bool is_token = value.is_string() || (value.is_object() && value.contains("content"));
    if (ends_with_token(key) && is_token) tokens.push_back(named(key, value));
  }
  const auto found = values_.find(kOfModel);
  if (found == values_.end() || !found->is_object()) return tokens;
  for (const auto& [key, value] : found->items()) {
    if (!value.is_null()) tokens.push_back(named(key, value));
  }
  return tokens;
}

std::vector<NamedToken> TokenizerArguments::list(const std::string& key) const {
  std::vector<NamedToken> tokens;
  const bool is_additional = key == kExtra && !values_.contains(kExtra);
  const auto found = values_.find(is_additional ? kAdditional : key);
  if (found == values_.end() || !found->is_array()) return tokens;
  for (const ConfigJson& value : *found) {
    if (!value.is_null()) tokens.push_back(named(key, value));
  }
  return tokens;
}

void TokenizerArguments::extend_additional_tokens(const ConfigJson& tokens) {
  for (const ConfigJson& token : tokens) values_[kAdditional].push_back(token);
}

void TokenizerArguments::set_default(const std::string& key, ConfigJson value) {
  if (!values_.contains(key)) values_[key] = std::move(value);
}

}  // namespace accel
