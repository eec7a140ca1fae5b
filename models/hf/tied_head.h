// Heads of Hugging Face folders that are tied to the embedding, or that should be by the config.
#pragma once

#include <string>
#include <vector>

#include "models/hf/hf_config.h"
#include "models/hf/hf_weights.h"

namespace accel {

/// Whether a folder has a head, under the first of the names `heads` that it has, whose values are
/// not those of its embedding, under one of the names `tables`, or has a head and no embedding.
/// transformers 5 does not tie these two, whatever `tie_word_embeddings` says.
bool has_own_head(const HfWeights& weights, const std::vector<std::string>& heads,
                  const std::vector<std::string>& tables);

/// The same of the folder of a config whose head would be tied to `names.tied_table`. False for a
/// folder whose weights cannot be read, and without a tied table.
bool has_own_head(const HfConfig& config, const HfNames& names);

}  // namespace accel
