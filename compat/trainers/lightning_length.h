// The length of a training of Lightning's, and when it evaluates.
#pragma once

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Reads the keys of `trainer` into `train.until`, `eval.every` and `log.every`.
void read_lightning_length(TrainerConfig& trainer);

}  // namespace accel
