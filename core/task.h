// What one step computes: the loss of a batch and what metrics look at.
#pragma once

#include <string>
#include <vector>

#include "core/batch.h"
#include "core/data_shape.h"

namespace accel {

class Model;

struct TaskContext {
  DataShape data;
};

/// What an evaluated batch gives: the mean loss, and the model's output for the metrics.
struct Evaluation {
  at::Tensor loss;    ///< 0-d
  at::Tensor output;  ///< logits or predictions
};

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
};

}  // namespace accel
