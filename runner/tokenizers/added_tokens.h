// Tokens that are found in the text itself, before it is cut into words.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/json_place.h"
#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/pattern.h"
#include "runner/tokenizers/vocabulary.h"

namespace accel {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< only where no word goes on before or behind it
  bool lstrip = false;       ///< takes the white space in front of it
  bool rstrip = false;
  bool normalized = false;  ///< is looked for in the normalized text
  bool special = false;
};

/// A token's place in a text, or a stretch of text between tokens.
struct AddedPart {
  TextSpan span;
  int32_t id = -1;  ///< -1: text
};

/// Finds some tokens: from the left, the longest first.
class TokenFinder {
 public:
  TokenFinder() = default;
  /// `spelled`: how each of the tokens is to be looked for; empty: not at all.
  TokenFinder(std::vector<const AddedToken*> tokens, std::vector<std::string> spelled);

  /// All of `text` in order, tokens and what lies between.
  std::vector<AddedPart> parts(std::string_view text) const;

 private:
  /// Where a token begins next, and which; null when there is none.
  const AddedToken* next(std::string_view text, size_t& at, size_t& length) const;

  std::map<std::string, const AddedToken*, std::less<>> tokens_;
  std::array<size_t, 256> longest_{};  ///< by first byte
};

/// The list 'added_tokens'.
class AddedTokens {
 public:
  /// Throws FormatError that names the place. `model` has the ids of those that it knows itself.
  AddedTokens(const JsonPlace& place, const Vocabulary& model, const Normalizer* normalizer);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  const TokenFinder& raw() const { return raw_; }
  const TokenFinder& normalized() const { return normalized_; }

  /// Null when there is none.
  const AddedToken* with_id(int64_t id) const;
  const AddedToken* with_content(std::string_view content) const;
  /// The largest id and one.
  int64_t size() const { return size_; }

 private:
  std::map<int64_t, AddedToken> tokens_;
  std::map<std::string, const AddedToken*, std::less<>> by_content_;
  TokenFinder raw_;
  TokenFinder normalized_;
  int64_t size_ = 0;
};

}  // namespace accel
