// Heads of language models that differ from the embedding.
#pragma once

#include <string>
#include <vector>

#include "formats/tensors/safetensors.h"

namespace accel {

/// Whether a folder has a head, under the first of the names `heads` that it has, whose values are
/// not those of its embedding, under one of the names `tables`, or has a head and no embedding.
/// transformers 5 does not tie these two, whatever `tie_word_embeddings` says.
bool has_own_head(const std::vector<NamedArray>& folder, const std::vector<std::string>& heads,
                  const std::vector<std::string>& tables);

}  // namespace accel
