// Configs of TRL's GRPOTrainer as the task `grpo`.
#pragma once

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Refuses losses and schedules of generation that the task lacks.
void check_grpo_config(TrainerConfig& config);

/// Writes the task and its data. After the model and the adapter are read.
void read_grpo_task(TrainerConfig& config);

/// TRL's batch sizes count completions, those of the recipe prompts. After them.
void read_grpo_batches(TrainerConfig& config);

}  // namespace accel
