// Learning-rate schedules of Hugging Face's Trainer.
#pragma once

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Reads the schedule that `key` names, its warm-up and `lr_scheduler_kwargs`. `fallback` is the
/// schedule and `fallback_warmup` the warm-up where the config has none; "": none.
void read_schedule(TrainerConfig& config, const char* key, const char* fallback,
                   const char* fallback_warmup);

}  // namespace accel
