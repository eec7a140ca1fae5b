// Which samples of an epoch's order each rank reads, in closed form: nothing grows with the data.
#pragma once

#include <cstdint>

namespace accel {

/// An epoch is dealt in rounds of `world` micro-batches, one for each rank. Only the last round can
/// hold fewer than world * micro_batch samples; this says who then gets what.
enum class Sharing {
  kBatches,  ///< full micro-batches to the first ranks, the rest to the next, none to the others
  kSlices,   ///< the round cut into equal contiguous slices, one for each rank
};

/// kBatches is Accelerate's shard of batches of `micro_batch`, and equally its `split_batches` with
/// batches of world * micro_batch: both deal alike. kSlices is its dispatch of either.
struct ShardPlan {
  int64_t samples = 0;      ///< in an epoch's order
  int64_t micro_batch = 1;  ///< samples
  int64_t world = 1;        ///< ranks
  Sharing sharing = Sharing::kBatches;
  bool even_batches = true;  ///< fill the last round from the start of the order, going around it
                             ///< as often as it takes; false: it stays short, some ranks without
  bool drop_last = false;    ///< leave out the last round unless it is full
};

/// One micro-batch: its sample j stands at position (first + j) % samples of the epoch's order.
struct Share {
  int64_t first = 0;
  int64_t size = 0;   ///< 0: the rank has no micro-batch in this round
  int64_t valid = 0;  ///< this many from the front are there for the first time, the others again
};

/// One round over all ranks.
struct Round {
  int64_t first = 0;    ///< position of its first sample in the epoch's order
  int64_t valid = 0;    ///< samples, each counted once
  int64_t padded = 0;   ///< samples that come again, to fill it
  int64_t width = 0;    ///< samples of a micro-batch; without even batches one may have fewer
  int64_t batches = 0;  ///< micro-batches: the first so many ranks have one
};

/// Rounds in an epoch, an incomplete last one included.
int64_t rounds_of(const ShardPlan& plan);
/// Samples an epoch gives, each counted once: fewer than it has when the last are dropped.
int64_t samples_of(const ShardPlan& plan);
/// Round `index`, which must be one of the epoch's.
Round round_of(const ShardPlan& plan, int64_t index);
/// The micro-batch of `rank` in round `index`, which must be one of the epoch's.
Share share_of(const ShardPlan& plan, int64_t index, int64_t rank);
/// Micro-batches of `rank` in an epoch: those of the rounds 0, 1, ...
int64_t batches_of(const ShardPlan& plan, int64_t rank);

}  // namespace accel
