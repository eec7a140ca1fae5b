// What one step computes: the loss of a batch and what metrics look at.
#pragma once

#include <string>
#include <vector>

#include "core/batch.h"
#include "core/data_shape.h"
#include "core/registry.h"
#include "core/step.h"

namespace accel {

struct TaskContext {
  DataShape data;
};

/// What an evaluated batch gives: the mean loss, and the model's output for the metrics.
struct Evaluation {
  at::Tensor loss;    ///< 0-d
  at::Tensor output;  ///< logits or predictions
};

/// A model that a task brings besides the recipe's. Checkpoints keep it as `model_1.safetensors`,
/// `model_2.safetensors`, ... in the order of Task::models().
struct TaskModel {
  std::string name;  ///< what messages call it and Task::optimizers() refers to
  Model* model;      ///< the task's own; never null
  /// False for one that no optimizer trains and that is read from a file: checkpoints hold it not.
  bool in_checkpoints = true;
};

/// An optimizer besides the recipe's, in checkpoints `optimizer_1.bin` and so on. The recipe's
/// schedule gives its rates too, each relative to its own base rate.
struct TaskOptimizer {
  std::string name;                 ///< for StepContext::update(); other than kRecipeOptimizer
  Ref<Optimizer> component;         ///< from the task's options
  std::vector<std::string> models;  ///< whose parameters it trains; none may have two optimizers
};

/// An ordinary task only says the loss of a batch, and its metrics. One with several models and
/// optimizers, or with updates of its own, overrides the second half as well.
class Task {
 public:
  virtual ~Task() = default;

  /// How much a batch counts when an accumulation window or an evaluation is averaged: samples, or
  /// the tokens that carry loss. Needs no forward pass.
  virtual double weight(const Batch& batch) const = 0;

  /// The mean over weight(batch), 0-d, ready for backward().
  virtual at::Tensor loss(Model& model, const Batch& batch) = 0;

  /// As loss(), and the output too. Called without autograd and with the model in eval mode.
  virtual Evaluation evaluate(Model& model, const Batch& batch) = 0;

  /// Names of the metrics that make sense for it; the first ones are reported by default.
  virtual std::vector<std::string> metrics() const = 0;
  /// Those of metrics() that an evaluation reports when the recipe names none.
  virtual std::vector<std::string> default_metrics() const = 0;

  /// Asked once, after the task is made. Models that no optimizer trains stay as they are and in
  /// eval mode.
  virtual std::vector<TaskModel> models() { return {}; }
  virtual std::vector<TaskOptimizer> optimizers() { return {}; }

  /// One step: at most one update of each optimizer. Returns the loss that the run reports, the
  /// same on all ranks.
  virtual double step(StepContext& context) {
    return context.update(kRecipeOptimizer,
                          [&](const Batch& batch) { return loss(context.model(), batch); });
  }

  /// What else changes from step to step, alike on all ranks: `custom_checkpoint_0.pkl`, absent
  /// when empty.
  virtual StateDict state() const { return {}; }
  /// Throws CheckpointError when it does not fit.
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
