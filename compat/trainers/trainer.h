// Keys of Hugging Face's TrainingArguments, which other formats share.
#pragma once

#include <span>

#include "compat/trainers/import_recipe.h"

namespace accel {

std::span<const TrainerKey> trainer_keys();

/// Reads the run's name, the device and the timeout of collectives.
void read_trainer_options(TrainerConfig& config);

}  // namespace accel
