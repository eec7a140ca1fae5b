// Per-rank state, such as local optimizer state under local SGD: gathered into a checkpoint and
// restored from it.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/train_state.h"
#include "train/job/job.h"

namespace accel {

/// The checkpoint section with per-rank state; absent when ranks have none.
constexpr auto kRanksSection = "ranks";

/// Adds copies of all ranks' state to rank 0's `state`. All ranks call it.
void add_rank_states(const Job& job, TrainState& state);

/// Adds state of the size that add_rank_states() adds, from this rank's own: for size checks.
void add_own_state_for_all(const Job& job, TrainState& state);

/// Restores this rank's state; call after the shared state is restored. False when the checkpoint's
/// per-rank state is of another number of ranks and is not used.
bool restore_rank_state(Job& job, const TrainState& state);

/// The model averaged over ranks: copies where ranks' weights differ, else the job's tensors, or
/// the evaluation weights of optimizers that have them. All ranks call it.
std::vector<Parameter> model_of_all_ranks(const Job& job);

}  // namespace accel
