// Lists of words as tokens that know their words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runner/tokenizers/tokenizer.h"

namespace accel {

struct WordTokens {
  static constexpr int32_t kNoWord = -1;

  std::vector<int32_t> ids;
  std::vector<int32_t> words;  ///< of each token the word's number, or kNoWord of a special one
};

/// Immutable; several threads may use one.
class WordEncoder {
 public:
  /// Throws DataError for a tokenizer that changes a text's tokens when it adds the special ones.
  WordEncoder(std::shared_ptr<const Tokenizer> tokenizer, const TextCut& cut);

  /// What transformers gives for words with `is_split_into_words`: each word is a text of its own,
  /// and where the tokenizer marks the space before a word, all words have it. Tokens are cut,
  /// not the special ones, so that there are `max_length` of the cut at most. Throws DataError when
  /// the special ones leave no room, and when only the second text of a pair is to be cut.
  WordTokens encode(const std::vector<std::string>& words) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextCut cut_;
  bool needs_space_;
  std::vector<int32_t> before_, after_;  ///< the special tokens around a text
};

}  // namespace accel
