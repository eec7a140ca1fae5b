// Sharding of a job's models, and offload of their state, by the recipe's `accelerator.fsdp`
// section.
#pragma once

#include <memory>
#include <string>

#include "parallel/shard_unit.h"
#include "train/job/job.h"
#include "train/job/named_models.h"

namespace accel {

/// The strategy for the models of one optimizer; `seed` is that of a canonical reduction. Throws
/// RecipeError for a pattern of `ignored` without a match.
std::unique_ptr<Strategy> build_fsdp(const Job& job, const NamedModels& models, uint64_t seed);

/// The strategy for `own`, the parameters of the model that a pipeline's rank has.
std::unique_ptr<Strategy> build_stage_fsdp(const Job& job, const std::vector<Parameter>& own);

/// Whether the rows of a parameter of the model are divided over Mesh::shard.
bool divides_rows(const Job& job, const std::string& name, const at::Tensor& tensor);

/// For optimizers; null without sharding.
std::shared_ptr<const ShardExchange> shard_exchange(const Job& job);

/// "FSDP stage 3, dp_shard 2: rows of 1.2 MiB of parameters per rank; sharded checkpoints".
std::string sharding_summary(const Job& job);

/// Refuses, at `where`, an optimizer of this type that cannot act on rows of parameters.
void check_shards(const Job& job, const Optimizer& optimizer, const std::string& type,
                  const Span& where);

/// For `offload: disk`, else null. Creates the scratch file unless it is for an estimate. Throws
/// IoError.
std::shared_ptr<DiskSwapper> build_swapper(const Job& job, bool is_estimate);

/// Where the shards of the job's parameters and their gradients are.
ShardHome shard_home(const Job& job);

/// "disk: 1.2 GiB per rank in '/scratch', direct I/O; ..."; "" without offload.
std::string offload_summary(const Job& job);

/// Refuses, at `where`, an optimizer of this type that does not swap its state.
void check_swapping(const Job& job, const Optimizer& optimizer, const std::string& type,
                    const Span& where);
/// Refuses a callback that may access parameters which are swapped out, at its place in the recipe.
void check_swapping(const Job& job, const Callback& callback, const Ref<Callback>& ref);

}  // namespace accel
