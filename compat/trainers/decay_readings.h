// Weight decay as Hugging Face's Trainer applies it: to all parameters but biases and norms.
#pragma once

#include <string>

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Sets `optimizer.groups` where `weight_decay` is positive and `model_type` is one whose parameter
/// names are known; a remark for others. An adapter has neither biases nor norms. `folder` is the
/// model's, or its name on the hub.
void read_decay_exclusions(TrainerConfig& config, const std::string& model_type,
                           const std::string& folder);

}  // namespace accel
