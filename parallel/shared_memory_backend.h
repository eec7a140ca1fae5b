// Collectives of CPU tensors in memory that the ranks of one machine share.
#pragma once

#include <string>

#include "parallel/c10d_group.h"

namespace accel {

struct SharedMemoryAttempt {
  BackendPtr backend;        ///< null on all ranks unless all could map each other's memory
  std::string problem = {};  ///< of one rank; empty when the ranks are on several machines
};

/// Connects the ranks by rendezvous in the store. Throws what the store throws.
///
/// A rank copies its tensor to memory of its own when a collective starts, and reads those of the
/// others when it waits for the result; no collective has a thread. All-reduce and reduce-scatter
/// add in the order of ranks. Collectives throw LostPeer when a rank has ended or left.
SharedMemoryAttempt make_shared_memory_backend(const StorePtr& store, const GroupOptions& options);

}  // namespace accel
