// From the recipe's `accelerator` section to the parts of a job that ranks share.
#pragma once

#include <cstddef>
#include <memory>

#include "runner/job/job.h"

namespace accel {

/// Throws RecipeError when `world` ranks cannot do what the recipe asks.
void check_sharing(const RecipeOptions& recipe, const Node& resolved, int64_t world);

/// The `train` section for `world` ranks: with `split_batches: false` each brings a batch.
TrainSection shared_train(const RecipeOptions& recipe, int64_t world);

/// Threads of one rank of `local_world` on this machine. A canonical reduction takes one: sums over
/// several threads depend on their number.
int64_t threads_of(const AcceleratorSection& section, int64_t local_world);

/// Gives each rank but the first a stream of random numbers of its own, for dropout: a function of
/// seed, rank and `step`. Rank 0 goes on with the one that made the weights.
void seed_rank(const Job& job, int64_t step);

/// Gives the models' batch norms a sum over ranks where the recipe says so. Throws RecipeError for
/// models that the recipe's way of sharing does not suit.
void prepare_sharing(const Job& job);

/// How ranks share the training of `context`'s parameters, the `number`-th of the job's parts.
std::unique_ptr<Strategy> build_strategy(const Job& job, const StrategyContext& context,
                                         size_t number);

}  // namespace accel
