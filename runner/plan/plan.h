// Plan: memory and compute of a recipe, estimated without training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/api/data_shape.h"
#include "parallel/communicator.h"
#include "parallel/mesh.h"
#include "runner/plan/plan_pipeline.h"
#include "train/job/job.h"

namespace accel {

/// Shape and size of the data.
struct DataSchema {
  DataShape shape;  ///< after all transforms
  int64_t train_samples = 0;
  int64_t eval_samples = 0;
  std::string mixture = {};  ///< see mixture_summary()
};

/// Peak memory of the rank with the most, in bytes, without the memory of the process before the
/// model is built, such as libtorch and in-memory datasets.
struct PlannedMemory {
  int64_t weights = 0;        ///< parameters and buffers
  int64_t gradients = 0;      ///< of the trainable parameters
  int64_t optimizer = 0;      ///< optimizer state
  int64_t activations = 0;    ///< other tensors of forward and backward at the peak
  int64_t fragmentation = 0;  ///< free memory between blocks that the allocator keeps
  int64_t packing = 0;        ///< packing buffers of matrix products
  int64_t others = 0;         ///< buffers of strategy and callbacks: buckets, averages
  int64_t loader = 0;         ///< prefetched samples
  int64_t copy = 0;           ///< snapshot of the state for an asynchronous checkpoint

  /// Held throughout the run.
  int64_t state() const { return weights + gradients + optimizer; }
  /// During an asynchronous checkpoint.
  int64_t total() const { return training() + copy; }
  /// Between checkpoints.
  int64_t training() const {
    return weights + gradients + optimizer + activations + fragmentation + packing + others +
           loader;
  }
};

/// Bytes of libtorch's code, tables and threads that the first steps add to a process with a built
/// job, measured with tiny models.
inline constexpr int64_t kTorchRuntimeBytes = 16 << 20;

struct Plan {
  int64_t parameters = 0;
  int64_t trained = 0;  ///< trainable ones
  BatchPlan batches;
  MeshSizes mesh;
  std::optional<PlannedPipeline> pipeline;
  std::string experts;    ///< of a rank, as the first screen has it; "" without expert parallelism
  std::string streaming;  ///< of frozen weights, as the first screen has it; "" without
  DataSchema data;
  /// Of one optimizer step.
  double flops = 0;        ///< over all ranks
  double rank_flops = 0;   ///< those of rank 0
  double moved_bytes = 0;  ///< read and written by other operators of rank 0 than those with FLOPs
  Traffic traffic;         ///< sent by rank 0
  /// What each micro-batch adds to `traffic`.
  Traffic micro_batch_traffic;
  int64_t tokens = 0;       ///< over all ranks; 0 unless samples are sequences
  int64_t built_bytes = 0;  ///< tensors before the first step
  /// Peak of the tensors while a sharded job is built; 0 unless it exceeds that of the steps.
  int64_t start_peak = 0;
  PlannedMemory memory;
  int64_t largest_rank = 0;     ///< that of `memory`
  PlannedMemory rank_0_memory;  ///< of rank 0, which a run compares with its own
  int64_t checkpoint_bytes = 0;
  int64_t checkpoints_kept = 0;  ///< at once, including the one being written
  int64_t scratch_bytes = 0;     ///< of a rank's training state on the disk
  int64_t dataset_bytes = 0;     ///< of all training samples as model inputs
  int64_t total_steps = 0;       ///< 0: limited by time only
  int64_t steps_per_epoch = 0;
  /// Names of the logged metrics except those of `log.system`: "train/loss", "eval/accuracy".
  std::vector<std::string> names;

  /// All ranks: those with different samples, times those that share them.
  int64_t ranks() const { return batches.world * (mesh.ranks() / mesh.data()); }
};

/// Opens only the data of a recipe. Throws as build_job() does.
DataSchema open_data(const RecipeOptions& recipe, const Node& resolved, const Registry& registry);

/// The ranks of a plan.
struct PlanRanks {
  PlanRanks(int64_t count, PlanDetail of_steps = PlanDetail::kMeasured)  // NOLINT: as its count
      : world(count), detail(of_steps) {}
  int64_t world;
  PlanDetail detail;
};

/// Builds the job of `recipe` with fake tensors and runs three steps, as rank 0 of these ranks.
/// Leaves the process unchanged. Throws the errors of build_job() and of the model.
Plan make_plan(const RecipeOptions& recipe, const Node& resolved, const Registry& registry,
               const DataSchema& data, PlanRanks ranks);

/// Calls `visit` with the model of the job on one rank, whose tensors are fake.
void visit_fake_model(const RecipeOptions& recipe, const Node& resolved, const Registry& registry,
                      const DataSchema& data, const std::function<void(Model&)>& visit);

/// Only weights, gradients and optimizer state of that plan: the job makes no step.
PlannedMemory plan_state(const RecipeOptions& recipe, const Node& resolved,
                         const Registry& registry, const DataSchema& data, int64_t world);

}  // namespace accel
