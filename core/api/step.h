// The interface of a training step to tasks with their own updates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/model.h"
#include "core/api/ranks.h"

namespace accel {

/// The mean loss over Task::weight(batch), 0-d, ready for backward().
using BatchLoss = std::function<at::Tensor(const Batch&)>;

/// Name of the recipe's optimizer in StepContext::update().
constexpr auto kRecipeOptimizer = "optimizer";

/// The global batch of one step and its updates. All ranks call the same methods in the same order,
/// also a rank without micro-batches in an epoch's short tail. Random numbers come from libtorch's
/// default generator: each rank has its own stream, checkpoints save it, and a canonical reduction
/// seeds it by micro-batch.
class StepContext {
 public:
  virtual ~StepContext() = default;

  /// Number of the step, from 1.
  virtual int64_t step() const = 0;
  /// Of the recipe.
  virtual Model& model() = 0;
  /// This rank's micro-batches.
  virtual const std::vector<Batch>& micro_batches() const = 0;

  /// One update of the parameters of `optimizer`: for each micro-batch of this rank `loss` under
  /// autocast, with gradients for these parameters only, weighted by Task::weight(), scaled, and
  /// backward; then all-reduce, unscale, clip and step. Returns the mean loss of the global batch,
  /// the same on all ranks. Throws DivergedError before any weight changes when the loss or a
  /// gradient is not finite, and std::logic_error for an unknown name.
  virtual double update(const std::string& optimizer, const BatchLoss& loss) = 0;
  /// update() of the recipe's optimizer as the only update of a step. Task::step() returns the
  /// result without reading it, since on a device it may be NaN: the run reads the loss later.
  virtual double sole_update(const BatchLoss& loss) { return update(kRecipeOptimizer, loss); }

  /// Logs "train/<name>" beside the loss: the mean since the last log line. Rank 0's value is used:
  /// pass one that is the same on all ranks, such as a result of update() or reduce().
  virtual void log(const std::string& name, double value) = 0;

  virtual Ranks& ranks() = 0;
  /// All-gathers one row per sample, in the order of the global batch and without the samples that
  /// `data.loader.even_batches` added. `rows` has one tensor per item of micro_batches().
  virtual at::Tensor gather_for_metrics(const std::vector<at::Tensor>& rows) = 0;
};

}  // namespace accel
