// Tokenizers as the metadata of GGUF files, from which llama.cpp makes the same tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/tensors/gguf.h"

namespace accel {

struct GgufTokenizer {
  std::vector<GgufField> fields;   ///< of "tokenizer."
  std::vector<std::string> notes;  ///< texts for which llama.cpp makes other tokens
};

/// Reads a tokenizer.json or a .model file, the one in a folder, and the special tokens and the
/// chat template beside it. The file has a token for each of the model's `rows`; those beyond the
/// tokenizer's are unused. llama.cpp knows two kinds: byte-level BPE with one of some splits, and
/// SentencePiece's BPE with byte fallback. Throws Error (kRecipe) for other tokenizers and for
/// those with more tokens than rows, DataError for unreadable files.
GgufTokenizer gguf_tokenizer(const std::filesystem::path& path, int64_t rows);

}  // namespace accel
