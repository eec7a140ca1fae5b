// Tokenization with truncation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/recipe/codec.h"
#include "text/tokenizer.h"

namespace accel {

/// The tokens of a text including special tokens; `types` is empty. Truncates the text, never the
/// special tokens. Throws DataError if the special tokens exceed the length, and for a strategy
/// that truncates only the second text of a pair.
TokenPair encode_cut(const Tokenizer& tokenizer, std::string_view text,
                     const TruncationConfig& cut);

/// As encode_cut() for a pair: the longer text is truncated first, then both equally, or a single
/// one by the strategy. Throws DataError if nothing of it remains.
TokenPair encode_pair_cut(const Tokenizer& tokenizer, std::string_view first,
                          std::string_view second, const TruncationConfig& cut);

/// The truncation of the recipe, else of the tokenizer's file, else to 128 tokens.
TruncationConfig cut_for(const Tokenizer& tokenizer, const Auto<int64_t>& max_length);

/// The range of a text's tokens that remains beside special tokens.
struct KeptTokens {
  size_t first = 0;
  size_t size = 0;
};

/// Throws as encode_cut() does.
KeptTokens kept_of(size_t tokens, size_t special, const TruncationConfig& cut);

}  // namespace accel
