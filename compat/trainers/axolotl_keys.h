// Keys of axolotl's configs beside those of TrainingArguments.
#pragma once

#include <span>

#include "compat/trainers/import_recipe.h"

namespace accel {

std::span<const TrainerKey> axolotl_keys();

}  // namespace accel
