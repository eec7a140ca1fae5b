// Texts as tokens, cut to a length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runner/tokenizers/tokenizer.h"

namespace accel {

/// The tokens of a text with the special ones, `types` empty. When there are more than `max_length`
/// the text loses its last ones; the special ones stay. Throws DataError when they alone are more.
TokenPair encode_cut(const Tokenizer& tokenizer, std::string_view text, int64_t max_length);

/// As encode_cut() of two texts: the longer one is cut first, then both alike.
TokenPair encode_pair_cut(const Tokenizer& tokenizer, std::string_view first,
                          std::string_view second, int64_t max_length);

/// How many tokens of text `special` ones leave. Throws DataError when that is none.
size_t room_for_text(size_t special, int64_t max_length);

}  // namespace accel
