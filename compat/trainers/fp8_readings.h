// fp8 in the configs of other trainers.
#pragma once

#include "compat/trainers/import_recipe.h"

namespace accel {

/// torchtitan's converter "float8" and its section. Returns whether the config has it.
bool read_titan_fp8(TrainerConfig& config);

/// Its gather in fp8. Call after the sharding is read.
void read_titan_fp8_gather(TrainerConfig& config);

/// axolotl's `fp8`: Accelerate's, with torchao. Call after `bf16` and the sharding are read.
void read_axolotl_fp8(TrainerConfig& config);

}  // namespace accel
