// Meshes of torchtitan's configs.
#pragma once

#include <string>

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Sets `train.micro_batch`. A local batch, the value of the key `local_key`, is one micro-batch,
/// which a pipeline divides further.
void read_titan_micro_batch(TrainerConfig& config, const std::string& local, const char* local_key);

/// Reads the degrees of all axes, the schedule of a pipeline and the sharding of parameters.
void read_titan_mesh(TrainerConfig& config);

}  // namespace accel
