// Tasks: the loss of a batch and the inputs of metrics.
#pragma once

#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/data_shape.h"
#include "core/api/step.h"
#include "core/recipe/registry.h"

namespace accel {

struct TaskContext {
  DataShape data;
};

/// Result of an evaluated batch.
struct Evaluation {
  at::Tensor loss;    ///< 0-d
  at::Tensor output;  ///< logits or predictions
};

/// A model of a task besides the recipe's, saved as `model_1.safetensors`, `model_2.safetensors`,
/// ... in the order of Task::models().
struct TaskModel {
  std::string name;  ///< in messages and in Task::optimizers()
  Model* model;      ///< owned by the task; never null
  /// False for a frozen model that is read from a file: checkpoints do not contain it.
  bool in_checkpoints = true;
};

/// An optimizer besides the recipe's, saved as `optimizer_1.bin` and so on. The recipe's schedule
/// scales its learning rates as well.
struct TaskOptimizer {
  std::string name;                 ///< for StepContext::update(); other than kRecipeOptimizer
  Ref<Optimizer> component;         ///< from the task's options
  std::vector<std::string> models;  ///< the models it trains; each has at most one optimizer
};

/// Most tasks define only the loss of a batch and the metrics. A task with several models or
/// optimizers, or with its own updates, overrides the second half as well.
class Task {
 public:
  virtual ~Task() = default;

  /// Weight of a batch in the mean over a global batch or an evaluation: samples, or target tokens.
  /// Needs no forward pass. It reads Batch::readable_targets(): with the targets themselves a step
  /// on a device waits for it.
  virtual double weight(const Batch& batch) const = 0;

  /// The mean over weight(batch), 0-d, ready for backward().
  virtual at::Tensor loss(Model& model, const Batch& batch) = 0;

  /// Loss and output. Called without autograd and with the model in eval mode.
  virtual Evaluation evaluate(Model& model, const Batch& batch) = 0;

  /// Names of the applicable metrics.
  virtual std::vector<std::string> metrics() const = 0;
  /// The metrics of a recipe that names none.
  virtual std::vector<std::string> default_metrics() const = 0;

  /// Called once, after construction. Models without an optimizer are frozen and in eval mode.
  virtual std::vector<TaskModel> models() { return {}; }
  virtual std::vector<TaskOptimizer> optimizers() { return {}; }

  /// One step: updates of its optimizers, each any number of times. Returns the loss that the run
  /// reports, the same on all ranks.
  virtual double step(StepContext& context) {
    return context.sole_update([&](const Batch& batch) { return loss(context.model(), batch); });
  }

  /// Further state, the same on all ranks: saved as `custom_checkpoint_0.pkl`, unless it is empty.
  virtual StateDict state() const { return {}; }
  /// Throws CheckpointError when it does not match.
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
