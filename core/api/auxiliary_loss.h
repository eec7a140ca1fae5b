// Losses of models besides the task's, and balance without one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/api/batch.h"

namespace accel {

/// Lengths of the vectors, float32, that stages of a pipeline exchange for a loss of all of them.
struct StageLossSizes {
  int64_t sums = 0;      ///< sent with the activations; 0: none
  int64_t gradient = 0;  ///< sent with the gradients of activations
};

/// A loss of all layers in the pass of one micro-batch through one stage. The last stage computes
/// the loss.
class StageLoss {
 public:
  virtual ~StageLoss() = default;
  /// Over the layers up to this stage's last one.
  virtual at::Tensor sums() const = 0;
  /// The gradient by which the layers' backward passes compute theirs, the same on all stages: set
  /// before the backward pass of a stage, or computed by that of the last one.
  virtual at::Tensor gradient() const = 0;
  virtual void set_gradient(const at::Tensor& gradient) = 0;
};

/// A model with a loss besides the task's, such as the load balance of experts. Training adds it to
/// the task's loss of each micro-batch; evaluation does not.
class AuxiliaryLoss {
 public:
  virtual ~AuxiliaryLoss() = default;
  /// The micro-batch of the next forward passes.
  virtual void begin_batch(const Batch& batch) = 0;
  /// The loss of the passes since begin_batch(), 0-d with autograd; undefined for none.
  virtual at::Tensor auxiliary_loss() = 0;

  /// Under pipeline parallelism, where each stage runs a part of a forward pass.
  virtual StageLossSizes stage_loss_sizes() const { return {}; }
  /// Before the forward pass of a stage. `sums`: of the stage before; undefined on the first one.
  virtual void begin_stage(const at::Tensor& /*sums*/) {}
  /// After it. Null without a loss.
  virtual std::shared_ptr<StageLoss> end_stage() { return nullptr; }
};

/// A model that balances the load of its experts by a bias instead of a loss.
class ExpertBalance {
 public:
  virtual ~ExpertBalance() = default;
  /// Changes the bias by the load since the last call: after each update, on all ranks. `sum` adds
  /// a tensor of this rank, in place, over all ranks with different tokens and over the stages of a
  /// pipeline: the load of layers of other stages is 0. Buffers of such a model are those that this
  /// keeps equal on all ranks. Returns what is logged, by name.
  virtual std::map<std::string, double> balance_experts(
      const std::function<void(const at::Tensor&)>& sum) = 0;
};

}  // namespace accel
