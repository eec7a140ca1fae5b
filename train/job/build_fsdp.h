// Sharding of a job's models by the recipe's `accelerator.fsdp` section.
#pragma once

#include <memory>
#include <string>

#include "train/job/job.h"
#include "train/job/named_models.h"

namespace accel {

/// The strategy for the models of one optimizer; `seed` is that of a canonical reduction. Throws
/// RecipeError for a pattern of `ignored` without a match.
std::unique_ptr<Strategy> build_fsdp(const Job& job, const NamedModels& models, uint64_t seed);

/// For optimizers; null without sharding.
std::shared_ptr<const ShardExchange> shard_exchange(const Job& job);

/// "FSDP stage 3, dp_shard 2: rows of 1.2 MiB of parameters per rank; sharded checkpoints".
std::string sharding_summary(const Job& job);

/// Refuses, at `where`, an optimizer of this type that cannot act on rows of parameters.
void check_shards(const Job& job, const Optimizer& optimizer, const std::string& type,
                  const Span& where);

}  // namespace accel
