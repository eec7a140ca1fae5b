// From the recipe's `accelerator` section to the parts of a job that ranks share.
#pragma once

#include <memory>
#include <vector>

#include "runner/job/job.h"

namespace accel {

/// Throws RecipeError when `world` ranks cannot do what the recipe asks.
void check_sharing(const RecipeOptions& recipe, const Node& resolved, int64_t world);

/// Threads of one rank of `local_world` on this machine. A canonical reduction takes one: sums over
/// several threads depend on their number.
int64_t threads_of(const AcceleratorSection& section, int64_t local_world);

/// Gives each rank but the first a stream of random numbers of its own, for dropout: a function of
/// seed, rank and `step`. Rank 0 goes on with the one that made the weights.
void seed_rank(const Job& job, int64_t step);

/// Throws RecipeError for a model that a canonical reduction cannot keep the same.
std::unique_ptr<Strategy> build_strategy(const Job& job, const std::vector<NamedTensor>& trained);

}  // namespace accel
