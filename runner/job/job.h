// Everything one run is made of, built from a recipe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/callback.h"
#include "core/metric.h"
#include "core/model.h"
#include "core/optimizer.h"
#include "core/schedule.h"
#include "core/task.h"
#include "data/loader.h"
#include "runner/dist/communicator.h"
#include "runner/dist/rank_watch.h"
#include "runner/dist/strategy.h"
#include "runner/job/recipe.h"
#include "runner/optim/joined_optimizer.h"
#include "runner/precision/precision.h"

namespace accel {

/// How one optimizer step is made up: batch = micro_batch x accumulation x world.
struct BatchPlan {
  int64_t batch = 0;
  int64_t micro_batch = 0;
  int64_t accumulation = 0;
  int64_t world = 1;
};

/// Follows from the recipe and the number of ranks. Throws Error (kRecipe) when the batch cannot be
/// shared by them.
BatchPlan plan_batches(const TrainSection& train, int64_t world = 1);

/// The processes that a job is shared by.
struct World {
  std::shared_ptr<Communicator> group = std::make_shared<SingleProcess>();
  int64_t local_world = 1;       ///< ranks on this machine, which share its cores
  at::Device device = at::kCPU;  ///< this process's own
  std::shared_ptr<RankWatch> watch = std::make_shared<RankWatch>();
  bool has_checkpoint = false;  ///< from which this process goes on, or does not start
};

/// What one optimizer trains, and how ranks share its gradients and buffers.
struct TrainedPart {
  std::string name;                     ///< for StepContext::update()
  std::vector<NamedTensor> parameters;  ///< those with gradients
  std::unique_ptr<Strategy> strategy;
  Optimizer* optimizer;  ///< one of those in Job::optimizer
};

/// The job's parts in the order they are built, so that they go in the opposite one.
struct Job {
  Registry registry;  ///< what the recipe was read with
  RecipeOptions recipe;
  Node resolved;  ///< the recipe with every option filled in, with the places they came from
  BatchPlan batches;
  std::shared_ptr<Communicator> group;
  std::shared_ptr<RankWatch> watch;
  at::Device device = at::kCPU;  ///< where the model is
  bool is_undrawn = false;       ///< its weights are no numbers until a checkpoint's are restored

  std::unique_ptr<Loader> train_loader;
  std::unique_ptr<Loader> eval_loader;  ///< null without eval data
  DataShape data;
  int64_t train_samples = 0;
  int64_t eval_samples = 0;
  std::string data_fingerprint;
  std::string weights_fingerprint;  ///< of what the model starts from; "": of chance
  ScheduleContext length;

  std::unique_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::vector<TaskModel> task_models;  ///< besides `model`
  std::vector<Model*> learning;        ///< `model` and those of the task's that are trained
  /// Of all models; those of the task's have names that begin with the model's and '/'.
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::unique_ptr<Precision> precision;
  std::unique_ptr<JoinedOptimizer> optimizer;  ///< all of them as one
  std::vector<TrainedPart> trained;            ///< the recipe's first, then the task's
  std::unique_ptr<Schedule> schedule;
  std::vector<std::unique_ptr<Metric>> metrics;
  /// What an evaluation reports, "eval/loss" first, and whether more of it is better.
  std::vector<std::pair<std::string, bool>> metric_names;
  std::vector<std::unique_ptr<Callback>> callbacks;
};

/// Opens the data, seeds the generators and builds every part but what writes to the disk. Throws
/// RecipeError or DataError; nothing has been written then. All ranks of `world` build the same.
std::unique_ptr<Job> build_job(RecipeOptions recipe, Node resolved, const Registry& registry,
                               const World& world = {});

/// Builds the metrics of a job with eval data, those of its task where the recipe names none.
/// Throws RecipeError for one that does not fit the task.
void build_metrics(Job& job, const Registry& registry);

/// Whether gradients, and so weights, are a rank's own.
bool is_local(const Job& job);

/// Names an evaluation reports.
std::vector<std::string> names_of(const std::vector<std::pair<std::string, bool>>& metrics);

/// The place of a dotted key in the recipe, or of the nearest section that was written.
Span recipe_place(const Node& tree, const std::string& path);

/// Calls `make`; its refusal of the recipe is reported at `where`.
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

/// Builds what a recipe named; a refusal is reported at the place in the recipe that asked for it.
template <class Base>
std::unique_ptr<Base> build(const Ref<Base>& ref, const typename Kind<Base>::Context& context) {
  return at_place(ref.resolved.where, [&] { return ref.make(context); });
}

}  // namespace accel
