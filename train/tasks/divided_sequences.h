// Losses of tasks where ranks divide sequences: context parallelism.
#pragma once

#include <functional>

#include "core/api/context_parallel.h"
#include "core/api/model.h"
#include "core/api/task.h"

namespace accel {

/// Implemented by tasks that support context parallelism: their loss while gradients are enabled is
/// this rank's part of the mean, and their evaluations are the same on all ranks.
class DividedSequences {
 public:
  virtual ~DividedSequences() = default;
};

/// The ranks that divide sequences; null: none do.
const ContextRanks* context_ranks(const Model& model);

/// A loss of outputs that all ranks have, such as those of whole texts: the same part of the mean
/// for each rank while gradients are enabled.
at::Tensor equal_part(const Model& model, const at::Tensor& mean);

/// What a task computes of the positions of a batch, with a target at each.
struct PositionLoss {
  std::function<double(const Batch& batch)> weight;     ///< of a mean
  std::function<at::Tensor(const Batch& batch)> mean;   ///< 0 without targets
  std::function<Evaluation(const Batch& batch)> score;  ///< its output: [batch, positions]
};

/// The mean; where ranks divide the sequence, this rank's part: a sum over its positions.
at::Tensor divided_loss(const Model& model, const Batch& batch, const PositionLoss& by);

/// The mean and the outputs at all positions, on all ranks.
Evaluation divided_evaluation(const Model& model, const Batch& batch, const PositionLoss& by);

}  // namespace accel
