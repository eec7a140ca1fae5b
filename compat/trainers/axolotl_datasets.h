// Datasets of axolotl configs.
#pragma once

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Reads the list under `key` as `target`: "data.train" or "data.eval".
void read_axolotl_datasets(TrainerConfig& config, const char* key, const char* target);

/// `shuffle_merged_datasets` of streamed data; axolotl's sampler shuffles other data in any case.
void read_axolotl_shuffle(TrainerConfig& config);

}  // namespace accel
