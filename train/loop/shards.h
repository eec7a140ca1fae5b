// The state of a sharded job as whole tensors, and back.
#pragma once

#include "checkpoint/train_state.h"
#include "train/job/job.h"

namespace accel {

/// Replaces the shares of parameters, optimizer state and callbacks' averages in a captured state
/// by whole tensors. All ranks call it; only rank 0 keeps them, one copy of everything.
void gather_shards(const Job& job, TrainState& state);

/// Replaces whole tensors by views of this rank's shares. Throws CheckpointError where the shape of
/// a parameter differs.
void take_shards(const Job& job, TrainState& state);

/// Bytes by which the state of all ranks exceeds that of this rank.
int64_t bytes_of_other_shards(const Job& job, const TrainState& state);

}  // namespace accel
