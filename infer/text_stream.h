// Text stream: turns tokens into text as they come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/text_codec.h"

namespace accel {

/// The texts returned for the tokens of a sequence are the text of all of them, in valid UTF-8: a
/// character of several tokens is returned with its last one.
class TextStream {
 public:
  /// New tokens continue `context`: a tokenizer may decode a token differently at the start of a
  /// text. The codec outlives this.
  TextStream(const TextCodec& codec, const std::vector<int64_t>& context);

  /// The text that `token` completes; may be empty.
  std::string add(int64_t token);
  /// The rest of the text.
  std::string finish();

 private:
  std::string text_of(size_t first) const;

  const TextCodec& codec_;
  std::vector<int64_t> tokens_;
  size_t first_ = 0;    ///< tokens before it are not decoded again
  size_t written_ = 0;  ///< tokens whose text is returned
};

}  // namespace accel
