// Ring attention (Liu, Zaharia, Abbeel, "Ring Attention with Blockwise Transformers", 2023), with
// the zigzag division of causal sequences (Brandon et al., "Striped Attention", 2023).
#pragma once

#include <memory>

#include "parallel/held_group.h"

namespace accel {

/// Queries, keys and values of this rank's chunks, rank r and 2 ranks - 1 - r of 2 ranks equal
/// chunks of a sequence: [batch, heads, 2 chunk, width]. Keys and values may have fewer heads.
struct RingCall {
  at::Tensor query, key, value;
  at::Tensor starts;  ///< see ContextAttention, also for the next two
  bool is_causal = true;
  at::Tensor visible = {};
};

/// Attention to the keys of all ranks. Keys and values travel around the ring while a rank
/// computes; in the backward pass their gradients travel with them.
at::Tensor ring_attention(const RingCall& call, const HeldGroupPtr& group);

/// The positions of the two chunks of `rank`, int64 [2 chunk].
at::Tensor zigzag_positions(int64_t rank, int64_t ranks, int64_t chunk);

}  // namespace accel
