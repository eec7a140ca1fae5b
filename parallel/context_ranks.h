// Context parallelism over a group of ranks.
#pragma once

#include <memory>

#include "core/api/context_parallel.h"
#include "parallel/communicator.h"

namespace accel {

/// How attention sees the keys of other ranks.
enum class ContextMethod {
  kRing,       ///< keys and values travel from rank to rank: see ring_attention()
  kAllGather,  ///< every rank gathers all keys and values
  /// Ranks exchange positions for heads (Jacobs et al., "DeepSpeed Ulysses", 2023): each has the
  /// whole sequence of its heads in attention, a contiguous part of it elsewhere.
  kUlysses,
};

struct ContextOptions {
  ContextMethod method = ContextMethod::kAllGather;
  /// Ranks of tensor parallelism, which divide the heads, and whether they divide the sequence too:
  /// each rank's number of positions is then a multiple of theirs.
  int64_t tensor_ranks = 1;
  bool sequence_parallel = false;
};

/// In causal attention with ContextAttention::starts a query sees the keys from its own start to
/// itself: those of its text, or of a window within it. Rows of `starts` may be one for all
/// samples.
std::shared_ptr<const ContextRanks> make_context_ranks(const std::shared_ptr<Communicator>& group,
                                                       const ContextOptions& options);

}  // namespace accel
