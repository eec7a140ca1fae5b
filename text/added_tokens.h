// Added tokens: matched in the text itself, before pre-tokenization.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_node.h"
#include "text/normalizer.h"
#include "text/pattern.h"
#include "text/token_model.h"

namespace accel {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< matched at word boundaries only
  bool lstrip = false;       ///< includes the white space on its left
  bool rstrip = false;
  bool normalized = false;  ///< matched in the normalized text
  bool special = false;
  std::string spelled = {};  ///< the text that is matched, and shown in decoded texts
};

/// An added token in a text, or the text between two.
struct AddedSegment {
  TextSpan span;
  int32_t id = -1;  ///< -1: text
};

/// Matches tokens from left to right, the longest first.
class TokenFinder {
 public:
  TokenFinder() = default;
  /// `spelled` has the text to match for each token; an empty one is never matched.
  /// With `splits_special`, matches of special tokens are text.
  TokenFinder(std::vector<const AddedToken*> tokens, std::vector<std::string> spelled,
              bool splits_special);

  /// All of `text` in order: tokens and the segments between them.
  std::vector<AddedSegment> segments(std::string_view text) const;

 private:
  /// The next token and its position; null when there is none.
  const AddedToken* next(std::string_view text, size_t& at, size_t& length) const;

  std::map<std::string, const AddedToken*, std::less<>> tokens_;
  std::array<size_t, 256> longest_{};  ///< by first byte
  bool splits_special_ = false;
};

/// The list 'added_tokens' of a tokenizer.json.
class AddedTokens {
 public:
  /// Throws FormatError with the path in the file. Ids must agree with the `model`'s own. With
  /// `splits_special`, special tokens are not found in texts.
  AddedTokens(const JsonNode& node, const Vocabulary& model, const Normalizer* normalizer,
              bool splits_special = false);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  const TokenFinder& raw() const { return raw_; }
  const TokenFinder& normalized() const { return normalized_; }

  /// Null when there is none.
  const AddedToken* with_id(int64_t id) const;
  const AddedToken* with_content(std::string_view content) const;
  /// The largest id plus one.
  int64_t size() const { return size_; }

 private:
  std::map<int64_t, AddedToken> tokens_;
  std::map<std::string, const AddedToken*, std::less<>> by_content_;
  TokenFinder raw_;
  TokenFinder normalized_;
  int64_t size_ = 0;
};

}  // namespace accel
