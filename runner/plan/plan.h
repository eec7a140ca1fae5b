// What a recipe would take and compute, found without training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data_shape.h"
#include "runner/job/job.h"

namespace accel {

/// What a plan has to know of the data.
struct DataFacts {
  DataShape shape;  ///< after all transforms
  int64_t train_samples = 0;
  int64_t eval_samples = 0;
};

/// Bytes that rank 0 holds when it holds the most. What the process has before it has a model, such
/// as libtorch and what a dataset reads at once, is not in it.
struct PlannedMemory {
  int64_t weights = 0;      ///< parameters and buffers
  int64_t gradients = 0;    ///< of the parameters that are trained
  int64_t optimizer = 0;    ///< its state
  int64_t activations = 0;  ///< all else that passes hold at the peak
  int64_t holes = 0;        ///< what the allocator keeps between blocks for later ones
  int64_t packing = 0;      ///< what products of matrices keep for copies of them
  int64_t others = 0;       ///< what the strategy and callbacks keep: buckets, averages
  int64_t loader = 0;       ///< samples that are prepared ahead
  int64_t copy = 0;         ///< of the state, while a checkpoint is written beside training

  /// While it trains and writes a checkpoint at once.
  int64_t total() const { return training() + copy; }
  /// While it only trains.
  int64_t training() const {
    return weights + gradients + optimizer + activations + holes + packing + others + loader;
  }
};

/// Bytes of libtorch's code, tables and threads that a process takes when it makes steps, beyond
/// those it has when a job is built: measured with models of a few parameters.
inline constexpr int64_t kTorchAtWork = 16 << 20;

struct Plan {
  int64_t parameters = 0;
  int64_t trained = 0;  ///< of them
  BatchPlan batches;
  DataFacts data;
  double flops = 0;         ///< of one optimizer step, over all ranks
  int64_t built_bytes = 0;  ///< of tensors that there are before the first step
  PlannedMemory memory;
  int64_t checkpoint_bytes = 0;
  int64_t checkpoints_kept = 0;  ///< at once, the one being written included
  int64_t dataset_bytes = 0;     ///< of all training samples as the model takes them
  int64_t total_steps = 0;       ///< 0: only the clock ends it
  int64_t steps_per_epoch = 0;
  /// Under which the run logs numbers, but those of `log.system`: "train/loss", "eval/accuracy".
  std::vector<std::string> names;
};

/// Opens the data of a recipe, and nothing else of it. Throws as build_job() does.
DataFacts open_data(const RecipeOptions& recipe, const Node& resolved, const Registry& registry);

/// Builds the job of `recipe` without contents and makes two steps of it, for rank 0 of `world`
/// ranks. Changes nothing of the process. Throws as build_job() does, and what a model throws for
/// this data.
Plan make_plan(const RecipeOptions& recipe, const Node& resolved, const Registry& registry,
               const DataFacts& data, int64_t world);

}  // namespace accel
