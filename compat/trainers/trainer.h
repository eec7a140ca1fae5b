// Keys of Hugging Face's TrainingArguments, which other formats share.
#pragma once

#include <span>

#include "compat/trainers/import_recipe.h"

namespace accel {

std::span<const TrainerKey> trainer_keys();

/// Reads the run's name, the device and the timeout of collectives.
void read_trainer_options(TrainerConfig& config);

/// Reads the timeout of collectives, in seconds.
void read_ddp_timeout(TrainerConfig& config);

}  // namespace accel
