// One step of training as a task sees it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/model.h"
#include "core/ranks.h"

namespace accel {

/// The mean loss over Task::weight(batch), 0-d, ready for backward().
using BatchLoss = std::function<at::Tensor(const Batch&)>;

/// What StepContext::update() calls the optimizer of the recipe's `optimizer` section.
constexpr auto kRecipeOptimizer = "optimizer";

/// The window of one step and what a task may do with it. All ranks call the same methods in the
/// same order, also one that has no micro-batch in an epoch's short tail. What is random in a pass
/// is drawn from libtorch's default generator: each rank has its own stream, checkpoints keep it,
/// and a canonical reduction seeds it by micro-batch.
class StepContext {
 public:
  virtual ~StepContext() = default;

  /// From 1.
  virtual int64_t step() const = 0;
  /// The recipe's.
  virtual Model& model() = 0;
  /// This rank's micro-batches.
  virtual const std::vector<Batch>& micro_batches() const = 0;

  /// One update of the parameters that `optimizer` trains. Calls `loss` for each micro-batch of
  /// this rank, under autocast and with no other optimizer's parameters asking for gradients;
  /// weights each by Task::weight(), scales, runs the backward pass, sums the gradients of all
  /// ranks, unscales, clips as the recipe says and steps. Returns the mean loss of the window over
  /// all ranks, the same on each. Throws DivergedError before a weight of this optimizer is touched
  /// when the loss or a gradient is not finite, and std::logic_error for an unknown name.
  virtual double update(const std::string& optimizer, const BatchLoss& loss) = 0;

  /// Shows "train/<name>" beside the loss: the mean since the last log line. Rank 0's value counts:
  /// give what is the same on all, such as what update() or reduce() returned.
  virtual void log(const std::string& name, double value) = 0;

  virtual Ranks& ranks() = 0;
  /// Of the whole window, over all ranks: one row per sample in the window's order, without those
  /// that `data.loader.even_batches` added. `rows` has a tensor for each of micro_batches(), with a
  /// row per sample.
  virtual at::Tensor gather_for_metrics(const std::vector<at::Tensor>& rows) = 0;
};

}  // namespace accel
