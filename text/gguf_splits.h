// The splits into words that llama.cpp knows for byte-level BPE.
#pragma once

#include <string>

#include "text/json_node.h"

namespace accel {

/// llama.cpp's name of the split that a tokenizer.json does ("llama-bpe"), by its pre_tokenizer and
/// the BPE model's ignore_merges; "" for others.
std::string gguf_split(const JsonNode& file);

/// The names, for messages.
std::string gguf_splits_text();

}  // namespace accel
