// Job: all components of one run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/callback.h"
#include "core/api/metric.h"
#include "core/api/model.h"
#include "core/api/optimizer.h"
#include "core/api/schedule.h"
#include "core/api/task.h"
#include "data/loader/loader.h"
#include "kernels/memory/disk_swapper.h"
#include "parallel/communicator.h"
#include "parallel/mesh.h"
#include "parallel/strategy.h"
#include "train/optim/joined_optimizer.h"
#include "train/precision/precision.h"
#include "train/recipe/recipe.h"

namespace accel {

/// Sizes of one optimizer step: batch = micro_batch x accumulation x world.
struct BatchPlan {
  int64_t batch = 0;
  int64_t micro_batch = 0;
  int64_t accumulation = 0;
  int64_t world = 1;
};

/// Throws Error (kRecipe) when `world` ranks cannot share the batch.
BatchPlan plan_batches(const TrainSection& train, int64_t world = 1);

class FrozenStream;
class StepGraph;

/// The processes of a job.
struct World {
  Mesh mesh;
  int64_t local_world = 1;       ///< ranks on this machine, sharing its cores
  at::Device device = at::kCPU;  ///< of this process
  std::shared_ptr<RankWatch> watch = std::make_shared<RankWatch>();
  bool has_checkpoint = false;            ///< this process resumes from one or fails
  std::vector<std::string> allowed = {};  ///< recipe keys whose files may differ between ranks
  /// The ranks do not exist, for an estimate, or share one process: their inputs are not compared.
  bool inputs_are_same = false;
  bool is_estimate = false;  ///< of fake tensors: nothing is written
};

/// An optimizer with its parameters and their strategy.
struct OptimizerBinding {
  std::string name;                    ///< for StepContext::update(); the recipe's is ""
  std::vector<Parameter> leaves = {};  ///< the models' trained tensors
  std::vector<Parameter> parameters =
      {};  ///< the same as the optimizer has them: shares if sharded
  std::unique_ptr<Strategy> strategy = nullptr;
  Optimizer* optimizer = nullptr;  ///< owned by the creator of the binding
};

/// How a parameter is divided over the tensor axis and the expert axis.
struct TensorCut {
  Shape global = {};
  std::vector<Placement> placements = {};  ///< empty: whole on every rank
  bool is_partial = false;                 ///< gradients are summed over the ranks of the axis
};

/// The components in the order they are built; destroyed in reverse.
struct Job {
  Registry registry;  ///< of the recipe's components
  RecipeOptions recipe;
  Node resolved;  ///< the recipe with all defaults, and the source position of each value
  BatchPlan batches;
  Mesh mesh;
  int64_t rank = 0;       ///< in mesh.world
  int64_t data_rank = 0;  ///< in mesh.data
  int64_t num_ranks = 1;
  bool is_main = true;  ///< rank 0, which writes for all
  std::shared_ptr<RankWatch> watch;
  at::Device device = at::kCPU;        ///< where the model is
  bool weights_uninitialized = false;  ///< true until a checkpoint's weights are restored

  std::shared_ptr<DiskSwapper> swapper;  ///< null: all state is in memory

  std::unique_ptr<Loader> train_loader;
  std::unique_ptr<Loader> eval_loader;  ///< null without eval data
  DataShape data;
  int64_t train_samples = 0;
  int64_t eval_samples = 0;
  std::string data_fingerprint;
  std::string held_out;                 ///< of data.split, for the first screen; "" without
  std::vector<std::string> fill_notes;  ///< missing values of the data, for the first screen
  std::string fitted_values;            ///< of the training data, for eval data; "" without
  std::string weights_fingerprint;      ///< of the initial weights; "" for random ones
  ScheduleContext length;

  /// Of the model with tensor parallelism; else null.
  std::shared_ptr<const TensorRanks> tensor_ranks;
  /// Of the model with expert parallelism; else null.
  std::shared_ptr<const ExpertRanks> expert_ranks;
  std::map<std::string, TensorCut> tensor_cuts;  ///< by parameter; others are whole
  std::unique_ptr<Model> model;
  std::shared_ptr<FrozenStream> frozen_stream;  ///< of `model`; null: its weights are in memory
  std::unique_ptr<Task> task;
  std::vector<TaskModel> task_models;    ///< besides `model`
  std::vector<Model*> trainable_models;  ///< `model` and the task's trained models
  /// Of all models; names of the task's begin with the model's name and '/'. Shares of those that
  /// are sharded.
  std::vector<Parameter> parameters;
  std::vector<Parameter> buffers;
  std::unique_ptr<Precision> precision;
  std::string fp8_layers;  ///< which layers are in fp8, for the first screen; "" without fp8
  std::unique_ptr<JoinedOptimizer> optimizer;  ///< all optimizers as one
  std::vector<OptimizerBinding> optimizers;    ///< the recipe's first, then the task's
  std::shared_ptr<StepGraph> step_graph;       ///< null: passes are launched one by one
  std::unique_ptr<Schedule> schedule;
  std::vector<std::unique_ptr<Metric>> metrics;
  /// Names of the evaluation's results, "eval/loss" first, and whether higher is better.
  std::vector<std::pair<std::string, bool>> metric_names;
  std::vector<std::unique_ptr<Callback>> callbacks;
};

/// Unshards all models during its lifetime, for forward passes.
class UnshardedScope {
 public:
  explicit UnshardedScope(const Job& job);
  ~UnshardedScope();
  UnshardedScope(const UnshardedScope&) = delete;
  UnshardedScope& operator=(const UnshardedScope&) = delete;

 private:
  const Job& job_;
};

/// Whether blocks gather their parameters in forward passes, so that all ranks must run the same.
bool gathers_in_passes(const Job& job);

/// Whether ranks with different samples communicate in passes, for sharding or experts.
bool data_ranks_communicate_in_passes(const Job& job);

/// Whether passes communicate, for sharding, tensor or expert parallelism or the stages of a
/// pipeline, so that all ranks must run the same.
bool communicates_in_passes(const Job& job);

/// Whether ranks without samples in the last batch of an epoch run repeated ones that do not count,
/// so that all ranks run the same passes.
bool fills_idle_ranks(const Job& job);

/// False under local SGD: gradients, and weights between averages, differ by rank.
bool syncs_gradients(const Job& job);

/// Names of the evaluation's results.
std::vector<std::string> names_of(const std::vector<std::pair<std::string, bool>>& metrics);

/// The source position of a dotted key in the recipe, or of the innermost section written.
Span recipe_place(const Node& tree, const std::string& path);

/// Calls `make`; a kRecipe error becomes a RecipeError at `where`.
template <class Make>
auto at_place(const Span& where, const Make& make) {
  try {
    return make();
  } catch (const RecipeError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kRecipe) throw;
    throw RecipeError({{where, error.what(), error.hint()}});
  }
}

/// Builds a component of the recipe; a kRecipe error is reported at its position.
template <class Base>
std::unique_ptr<Base> build(const Ref<Base>& ref, const typename Kind<Base>::Context& context) {
  return at_place(ref.resolved.where, [&] { return ref.make(context); });
}

}  // namespace accel
