// Optimizers whose evaluation weights differ from those that they train.
#pragma once

#include <vector>

#include "core/api/optimizer.h"

namespace accel {

/// Evaluations, generated texts, checkpoints' model files and exports have the evaluation weights.
class EvaluationWeights {
 public:
  virtual ~EvaluationWeights() = default;

  /// Puts the evaluation weights into the parameters until restore_training_weights(). step() is
  /// not called between.
  virtual void swap_in_evaluation_weights() = 0;
  /// Restores the training weights bit for bit.
  virtual void restore_training_weights() = 0;
  /// Those of parameters for which they differ, as new tensors, with the names of the parameters.
  virtual std::vector<Parameter> evaluation_weights() const = 0;
};

/// Replaces the tensors of `parameters` by the optimizer's evaluation weights, if it has any.
void put_evaluation_weights(const Optimizer& optimizer, std::vector<Parameter>& parameters);

}  // namespace accel
