// The strategy of Lightning's trainer: how ranks share the model.
#pragma once

#include <string>

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Reads `strategy`, which is given: a name such as "deepspeed_stage_3_offload", or a class.
void read_lightning_strategy(TrainerConfig& trainer, std::string name);

}  // namespace accel
