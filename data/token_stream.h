// Texts as one long sequence of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/bad_samples.h"
#include "runner/formats/jsonl.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

/// The tokens of a text, without special ones. It is encoded in parts of about 1 MiB, cut where a
/// line begins with something other than space, so that no part needs the memory of the whole.
std::vector<int32_t> tokens_of_text(const Tokenizer& tokenizer, std::span<const std::byte> text);

/// The tokens of all documents, with the tokenizer's end token behind each. Throws DataError when
/// it has none. A document that cannot be read goes to `bad`.
std::vector<int32_t> tokens_of_documents(const Tokenizer& tokenizer, JsonlReader documents,
                                         BadSamples& bad);

}  // namespace accel
