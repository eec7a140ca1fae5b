// Tokenization of word lists, with the word of each token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace accel {

struct WordTokens {
  static constexpr int32_t kNoWord = -1;

  std::vector<int32_t> ids;
  std::vector<int32_t> words;  ///< word index of each token, or kNoWord for special tokens
};

/// Immutable and thread-safe.
class WordEncoder {
 public:
  /// Throws DataError if special tokens change the tokens of a text.
  WordEncoder(std::shared_ptr<const Tokenizer> tokenizer, const TruncationConfig& cut);

  /// As transformers' `is_split_into_words`: each word is encoded separately, with a leading space
  /// if the tokenizer marks spaces. Truncates to `max_length` including special tokens. Throws
  /// DataError if the special tokens leave no room, and for a strategy that truncates only the
  /// second text of a pair.
  WordTokens encode(const std::vector<std::string>& words) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  TruncationConfig cut_;
  bool needs_space_;
  std::vector<int32_t> before_, after_;  ///< special tokens around a text
};

}  // namespace accel
