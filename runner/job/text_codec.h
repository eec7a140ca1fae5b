// Between texts and a model's token ids, as the data it was trained on has them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/data_shape.h"
#include "core/node.h"

namespace accel {

/// Immutable; several threads may use one.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  /// The ids of a text that is to go on: nothing is put behind it. Throws Error (kRecipe) when the
  /// model has no token for a part of it.
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Valid UTF-8.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  /// Tokens that end a text.
  virtual std::set<int64_t> ends() const { return {}; }
  /// What an empty text begins with; nothing when there is no such token.
  virtual std::vector<int64_t> beginning() const { return {}; }
};

/// The codec of a recipe's training data: its tokenizer, or the characters or bytes of its file.
/// Null for data that is no text, or whose tokens nothing explains. Throws DataError for a
/// tokenizer that cannot be read.
std::unique_ptr<TextCodec> codec_of_data(const Node& recipe, const DataShape& data);

/// A tokenizer.json, or the folder with one; what it puts in front of a text is put there where
/// `with_special`. Throws DataError.
std::unique_ptr<TextCodec> codec_of_tokenizer(const std::string& path, bool with_special);

}  // namespace accel
