// How a word becomes ids: the 'model' of a tokenizer.json.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runner/tokenizers/json_place.h"
#include "runner/tokenizers/vocabulary.h"

namespace accel {

/// Immutable to its callers: several threads may use one.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// Appends the ids of a word, which is valid UTF-8 and not empty. Throws DataError when something
  /// is unknown and there is no token for that.
  virtual void tokenize(std::string_view word, std::vector<int32_t>& ids) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
};

/// Reads the object 'model'. Throws FormatError that names the place.
std::unique_ptr<TokenModel> read_token_model(const JsonPlace& place);

std::unique_ptr<TokenModel> read_bpe(const JsonPlace& place);
std::unique_ptr<TokenModel> read_wordpiece(const JsonPlace& place);
std::unique_ptr<TokenModel> read_word_level(const JsonPlace& place);
std::unique_ptr<TokenModel> read_unigram(const JsonPlace& place);

/// {"token": id, ...}.
Vocabulary read_vocabulary(const JsonPlace& place);

/// What a model throws for a word without a token for the unknown.
[[noreturn]] void refuse_unknown(std::string_view word);

/// Ids of the tokens <0x00> to <0xFF>; -1 where one is not there.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace accel
