// Encoding of words into ids: the vocabulary and the 'model' of a tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_node.h"

namespace accel {

/// Ids may exceed the number of tokens in a file by this much, so that a small file cannot allocate
/// a large table.
constexpr int64_t kIdRoom = 100'000;

/// Movable, not copyable: views point into it.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  /// Must be called once, before the first add(); ids must be below `ids`.
  void reserve(size_t ids);

  /// Throws FormatError for a second token of an id or a second id of a token.
  void add(const std::string& token, int32_t id);

  /// As add(), but a second id of a token replaces the first.
  void add_last(const std::string& token, int32_t id);

  std::optional<int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  /// Null for an id without a token.
  const std::string* token(int64_t id) const;

  /// The largest id plus one.
  int64_t size() const { return size_; }
  /// The number of tokens.
  size_t count() const { return ids_.size(); }

 private:
  std::vector<std::string> tokens_;
  std::vector<bool> taken_;
  std::unordered_map<std::string_view, int32_t> ids_;
  int64_t size_ = 0;
};

/// Thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// Appends the ids of a non-empty word of valid UTF-8. Throws DataError for an unknown word when
  /// the model has no unknown token.
  virtual void tokenize(std::string_view word, std::vector<int32_t>& ids) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
};

/// Reads the object 'model'. Throws FormatError with the path in the file.
std::unique_ptr<TokenModel> read_token_model(const JsonNode& node);

std::unique_ptr<TokenModel> read_bpe(const JsonNode& node);
std::unique_ptr<TokenModel> read_wordpiece(const JsonNode& node);
std::unique_ptr<TokenModel> read_word_level(const JsonNode& node);
std::unique_ptr<TokenModel> read_unigram(const JsonNode& node);

/// {"token": id, ...}.
Vocabulary read_vocabulary(const JsonNode& node);

/// Throws the DataError for a word when the model has no unknown token.
[[noreturn]] void refuse_unknown(std::string_view word);

/// Ids of the tokens <0x00> to <0xFF>; -1 for a missing one.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace accel
