// Text codec: the tokens of a language model's texts.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/api/data_shape.h"
#include "core/recipe/node.h"

namespace accel {

/// Immutable; several threads may use one.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  /// The ids of a prompt, without end token. Throws Error (kRecipe) when the model has no token for
  /// a character.
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Valid UTF-8.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  /// Tokens that end a text.
  virtual std::set<int64_t> ends() const { return {}; }
  /// The tokens of an empty prompt; empty without a start token.
  virtual std::vector<int64_t> beginning() const { return {}; }
};

/// The codec of a recipe's training data: its tokenizer, or characters or bytes. Null for data
/// without text or with tokens of an unknown tokenizer. Throws DataError for an unreadable
/// tokenizer.
std::unique_ptr<TextCodec> codec_of_data(const Node& recipe, const DataShape& data);

/// How the sources of an encoder-decoder become tokens.
struct SourceTexts {
  std::string tokenizer;    ///< a tokenizer.json, or a folder with one
  std::string prefix = {};  ///< before each source
  int64_t max_length = 0;   ///< tokens beyond which a source is cut; 0: none
  bool append_eos = false;  ///< whether the end token follows a source that does not end with it
};

/// A codec of complete texts, with the special tokens of their ends. Throws DataError.
std::unique_ptr<TextCodec> codec_of_sources(const SourceTexts& texts);

/// The path under `key`, such as "tokenizer", of a recipe's training data; empty without one.
std::string named_in_data(const Node& recipe, const char* key);

/// The codec of a tokenizer.json, or of a folder with one; it adds the start tokens if
/// `with_special`. Throws DataError.
std::unique_ptr<TextCodec> codec_of_tokenizer(const std::string& path, bool with_special);

}  // namespace accel
