// Texts as tokens, cut to a length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/codec.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

/// The tokens of a text with the special ones, `types` empty. When there are too many the text is
/// cut; the special ones stay. Throws DataError when they alone are too many, and when only the
/// second text of a pair is to be cut.
TokenPair encode_cut(const Tokenizer& tokenizer, std::string_view text, const TextCut& cut);

/// As encode_cut() of two texts: the longer one is cut first, then both alike, or one alone. Throws
/// DataError when that leaves nothing of it.
TokenPair encode_pair_cut(const Tokenizer& tokenizer, std::string_view first,
                          std::string_view second, const TextCut& cut);

/// How texts are cut: as the recipe says, else as the tokenizer's file does, else to 128 tokens.
TextCut cut_for(const Tokenizer& tokenizer, const Auto<int64_t>& max_length);

/// Which tokens of a text stay, of so many, beside `special` ones.
struct KeptTokens {
  size_t first = 0;
  size_t size = 0;
};

/// Throws as encode_cut() does.
KeptTokens kept_of(size_t tokens, size_t special, const TextCut& cut);

}  // namespace accel
