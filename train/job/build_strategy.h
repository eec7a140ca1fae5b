// Distributed training of a job by the recipe's `accelerator` section.
#pragma once

#include <cstddef>
#include <memory>

#include "train/job/job.h"
#include "train/job/named_models.h"

namespace accel {

/// Throws RecipeError when the recipe cannot run on `world` ranks.
void check_sharing(const RecipeOptions& recipe, const Node& resolved, int64_t world);

/// The sizes of the recipe's mesh over `ranks` ranks.
MeshSizes sizes_of_mesh(const AcceleratorSection& section, int64_t ranks);

/// "rank 3", with its place in a mesh "rank 3 (pp 1, tp 1)".
std::string rank_name(const Job& job, int64_t rank);

/// The mesh of the recipe over the ranks of `world`, which all call it. check_sharing() has
/// accepted their number.
Mesh build_mesh(const AcceleratorSection& section, std::shared_ptr<Communicator> world);

/// The `train` section for `world` ranks with different samples: with `split_batches: false` the
/// batch is per rank.
TrainSection shared_train(const RecipeOptions& recipe, int64_t world);

/// Seeds the random stream of this rank, for dropout, from seed, rank and `step`. Rank 0 continues
/// the stream that initialized the weights.
void seed_rank(const Job& job, int64_t step);

/// Sets up sync batch norm. Throws RecipeError for models that do not fit the recipe's strategy.
void prepare_sharing(const Job& job);

/// The strategy for the models of optimizer `index`.
std::unique_ptr<Strategy> build_strategy(const Job& job, const NamedModels& models, size_t index);

}  // namespace accel
