// Assignment of an epoch's samples to ranks, in closed form.
#pragma once

#include <cstdint>

namespace accel {

/// An epoch consists of rounds of `world` micro-batches, one per rank. Only the last round can have
/// fewer than world * micro_batch samples; this selects their distribution.
enum class Sharing {
  kBatches,  ///< full micro-batches to the first ranks, the rest to the next one
  kSlices,   ///< equal contiguous slices, one per rank
};

/// kBatches equals Accelerate's BatchSamplerShard with batches of `micro_batch`, and its
/// `split_batches` with batches of world * micro_batch. kSlices equals its dispatch of either.
struct ShardPlan {
  int64_t samples = 0;      ///< draws per epoch
  int64_t micro_batch = 1;  ///< samples
  int64_t world = 1;        ///< ranks
  Sharing sharing = Sharing::kBatches;
  bool even_batches = true;  ///< pad the last round from the start of the order, repeatedly if
                             ///< needed; false: some ranks may have no batch
  bool drop_last = false;    ///< drop an incomplete last round
  bool all_ranks = false;    ///< where a rank would have no sample in the last round, its samples
                             ///< are split into contiguous slices that differ by at most one
};

/// A micro-batch: sample j is at position (first + j) % samples of the epoch's order.
struct Share {
  int64_t first = 0;
  int64_t size = 0;   ///< 0: no micro-batch for the rank
  int64_t valid = 0;  ///< samples that count, at the front; the others are repeated
};

/// One round over all ranks.
struct Round {
  int64_t first = 0;   ///< position in the epoch's order
  int64_t valid = 0;   ///< counted samples
  int64_t padded = 0;  ///< repeated samples
  int64_t width = 0;   ///< samples per micro-batch; fewer are possible without even batches
  int64_t wide = 0;    ///< the first `wide` ranks have `width` samples, the others one less; 0: all
  int64_t batches = 0;  ///< the first `batches` ranks have a micro-batch
};

/// Number of rounds per epoch, including an incomplete last one.
int64_t rounds_of(const ShardPlan& plan);
/// `index` must be below rounds_of().
Round round_of(const ShardPlan& plan, int64_t index);
/// The micro-batch of `rank` in a round; `index` must be below rounds_of().
Share share_of(const ShardPlan& plan, int64_t index, int64_t rank);
/// Number of micro-batches of `rank` per epoch, in rounds 0, 1, ...
int64_t batches_of(const ShardPlan& plan, int64_t rank);

}  // namespace accel
