// Heads of Hugging Face folders that are tied to the embedding, or that should be by the config.
#pragma once

#include "models/hf/hf_config.h"
#include "models/hf/hf_weights.h"
#include "models/hf/own_head.h"

namespace accel {

/// has_own_head() of the folder of a config whose head would be tied to `names.tied_table`. False
/// for a folder whose weights cannot be read, and without a tied table.
bool has_own_head(const HfConfig& config, const HfNames& names);

}  // namespace accel
