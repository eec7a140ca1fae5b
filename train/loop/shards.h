// The state of a sharded job: as whole tensors and back, or as shards.
#pragma once

#include <memory>

#include "checkpoint/shard_files.h"
#include "checkpoint/train_state.h"
#include "train/job/job.h"

namespace accel {

/// Replaces the shares of parameters, optimizer state and callbacks' averages in a captured state
/// by whole tensors. All ranks call it; only rank 0 keeps them, one copy of everything.
void gather_shards(const Job& job, TrainState& state);

/// Whether each rank writes its shards into checkpoints.
bool saves_shards(const Job& job);

/// The shards of this rank, and which of them it writes. `optimizer` is this rank's state.
std::shared_ptr<const ShardLayout> shard_layout(const Job& job, const OptimizerState& optimizer);

/// The regions of parameters that this rank holds. `job` outlives it.
RegionOf region_of(const Job& job);

/// Replaces whole tensors by views of this rank's shares; keeps those that are shares already.
/// Throws CheckpointError where the shape of a parameter differs.
void take_shards(const Job& job, TrainState& state);

/// Bytes by which the state of all ranks exceeds that of this rank.
int64_t bytes_of_other_shards(const Job& job, const TrainState& state);

/// Bytes that the first step adds to the optimizer's state on all ranks, estimated from this
/// rank's.
int64_t pending_bytes_of_all_ranks(const Job& job);

}  // namespace accel
