// What each rank holds that no other has, in and out of a checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/job/job.h"

namespace accel {

/// The part of a checkpoint that keeps it; absent where ranks hold nothing of their own.
constexpr auto kRanksPart = "ranks";

/// Adds that of all ranks to rank 0's `state`, as copies. All ranks call it.
void add_rank_states(const Job& job, TrainState& state);

/// As large as what add_rank_states() adds, made of this rank's own: to ask for its size.
void add_own_state_for_all(const Job& job, TrainState& state);

/// Puts this rank's own back, after all that the ranks share. False when the checkpoint has it of
/// another number of ranks, and it is not used.
bool restore_rank_state(Job& job, const TrainState& state);

/// The model of all ranks: copies where ranks' own differ, else the job's tensors. All ranks call
/// it.
std::vector<NamedTensor> model_of_all_ranks(const Job& job);

}  // namespace accel
