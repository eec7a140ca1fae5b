// Losses of models besides the task's, and balance without one.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/api/batch.h"

namespace accel {

/// A model with a loss besides the task's, such as the load balance of experts. Training adds it to
/// the task's loss of each micro-batch; evaluation does not.
class AuxiliaryLoss {
 public:
  virtual ~AuxiliaryLoss() = default;
  /// The micro-batch of the next forward passes.
  virtual void begin_batch(const Batch& batch) = 0;
  /// The loss of the passes since begin_batch(), 0-d with autograd; undefined for none.
  virtual at::Tensor auxiliary_loss() = 0;
};

/// A model that balances the load of its experts by a bias instead of a loss.
class ExpertBalance {
 public:
  virtual ~ExpertBalance() = default;
  /// Changes the bias by the load since the last call: after each update, on all ranks. `sum` adds
  /// a tensor of this rank over all ranks with different samples, in place. Returns what is logged,
  /// by name.
  virtual std::map<std::string, double> balance_experts(
      const std::function<void(const at::Tensor&)>& sum) = 0;
};

}  // namespace accel
