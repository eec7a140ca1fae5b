// Sharding of other trainers: FSDP, DeepSpeed and sizes of a mesh, by the tables of
// compat/sharding.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compat/sharding/sharding_keys.h"
#include "compat/trainers/import_recipe.h"

namespace accel {

/// Reads `fsdp`, `fsdp_config` and `deepspeed` of Hugging Face's Trainer.
void read_trainer_sharding(TrainerConfig& config);

/// A key of a trainer that is an option of a family under another name.
struct RenamedOption {
  const char* key;     ///< of the trainer: "parallelism.fsdp_reshard_after_forward"
  const char* option;  ///< of the family: "reshard_after_forward"
};

/// Reads the keys as options. The first one that is given enables the family; -1 is left open.
void read_renamed_sharding(TrainerConfig& config, const ShardingFamily& family,
                           std::span<const RenamedOption> keys);

/// Options of a family and their values.
using ShardingWords = std::vector<std::pair<std::string, std::string>>;

/// Reads the options that the key stands for.
void read_sharding_option(TrainerConfig& config, const ShardingFamily& family,
                          const std::string& key, const ShardingWords& words);

}  // namespace accel
