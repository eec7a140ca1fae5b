// The keys of Hugging Face's TrainingArguments, which other peers hand on.
#pragma once

#include <span>

#include "runner/importers/foreign_config.h"

namespace accel {

std::span<const ForeignKey> trainer_keys();

/// Reads what Trainer's own keys say that need more than a table: the run's name, the device,
/// loaders, the time ranks wait.
void read_trainer_rest(ForeignConfig& config);

}  // namespace accel
