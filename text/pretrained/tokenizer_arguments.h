// Keyword arguments of a tokenizer class: what the files beside a tokenizer.json say of it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"

namespace accel {

/// A special token as a file names it.
struct NamedToken {
  std::string key;  ///< such as "eos_token"
  AddedToken token;
  bool has_flags = false;  ///< the file gives lstrip and the like, else `token` has the defaults
};

/// The seven keys of transformers' special tokens, in its order.
const std::vector<std::string>& special_token_keys();

/// A token without flags: matched in the raw text, skipped in decoding.
AddedToken special_token(const std::string& content);

/// The object of a token, whose types must be right; flags that are absent are the defaults of
/// tokenizers' AddedToken. No id.
AddedToken read_token_object(const nlohmann::ordered_json& value);

class TokenizerArguments {
 public:
  /// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder; the
  /// latter two are not read beside an `added_tokens_decoder`, as in transformers. Throws DataError
  /// with the file and the path in it.
  static TokenizerArguments read(const std::filesystem::path& folder);

  /// tokenizer_config.json as it is; an empty object without one.
  const nlohmann::ordered_json& config() const { return config_; }
  bool has(const std::string& key) const { return values_.contains(key); }
  /// Null counts as absent. Throws FormatError with the key for another type.
  bool flag(const std::string& key, bool otherwise) const;
  int64_t count(const std::string& key, int64_t otherwise) const;
  /// None for a null or absent one.
  std::optional<NamedToken> token(const std::string& key) const;
  /// Keys of special tokens of the model, such as `image_token`, in the order of the files.
  std::vector<NamedToken> model_tokens() const;
  /// `extra_special_tokens`, or `additional_special_tokens` of special_tokens_map.json, which is
  /// the same unless both are given.
  std::vector<NamedToken> list(const std::string& key) const;
  /// `added_tokens_decoder` and added_tokens.json by id; none of tokenizer.json.
  const std::vector<AddedToken>& added() const { return added_; }
  /// Whether tokenizer.json's own added tokens are not of the class's arguments.
  bool has_decoder() const { return config_.contains("added_tokens_decoder"); }
  /// A default of the class: for a key that is absent.
  void set_default(const std::string& key, nlohmann::ordered_json value);
  /// Appends to `additional_special_tokens`, which is special_tokens_map.json's.
  void extend_additional_tokens(const nlohmann::ordered_json& tokens);
  /// Texts of the files, for a digest.
  const std::string& sources() const { return sources_; }

 private:
  void read_map(const std::filesystem::path& path);
  void read_added(const std::filesystem::path& path);
  NamedToken named(const std::string& key, const nlohmann::ordered_json& value) const;

  nlohmann::ordered_json config_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json values_ = nlohmann::ordered_json::object();
  std::vector<AddedToken> added_;
  std::string sources_;
};

}  // namespace accel
