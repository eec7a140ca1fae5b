// The StepContext of one optimizer step: the interface for the task, and the step's results.
#pragma once

#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <map>
#include <string>
#include <vector>

#include "core/api/step.h"
#include "parallel/operations.h"
#include "train/job/job.h"
#include "train/step/step_inputs.h"
#include "train/tasks/step_weights.h"

namespace accel {

struct StepNumbers;

/// Losses of a rank's micro-batches, without heap allocation for a few.
using PassLosses = c10::SmallVector<at::Tensor, 4>;

class TrainStepContext final : public StepContext, public StepWeights {
 public:
  /// Keeps references. `weights` is the same on all ranks.
  TrainStepContext(Job& job, const StepInputs& inputs, const std::vector<Batch>& batches,
                   const MicroBatchWeights& weights)
      : job_(job), inputs_(inputs), batches_(batches), weights_(weights), ranks_(*job.mesh.data) {}

  int64_t step() const override { return inputs_.header.step; }
  Model& model() override { return *job_.model; }
  const std::vector<Batch>& micro_batches() const override { return batches_; }
  double update(const std::string& optimizer, const BatchLoss& loss) override;
  double sole_update(const BatchLoss& loss) override;
  void log(const std::string& name, double value) override { logged_[name] = value; }
  Ranks& ranks() override { return ranks_; }
  at::Tensor gather_for_metrics(const std::vector<at::Tensor>& rows) override;

  double weight_of(size_t micro_batch) const override {
    return weights_.of(inputs_.global_batch.micro_batches[micro_batch].micro_batch_index);
  }
  double total_weight() const override { return weights_.total; }

  /// Of all updates as one vector, of the true gradients before clipping.
  double grad_norm() const { return grad_norm_; }
  /// False when fp16 overflowed in any update, which was then skipped.
  bool updated() const { return updated_; }
  /// Whether loss and norm are still to be read from StepHeader::readback.
  bool pending() const { return pending_; }
  const std::map<std::string, double>& logged() const { return logged_; }

 private:
  class Passes;

  /// Forward and backward of all micro-batches, until the gradients are those of all ranks. Returns
  /// the micro-batches' shares of the mean loss; undefined where another stage has the head.
  PassLosses accumulate(OptimizerBinding& binding, const BatchLoss& loss, StepGraph* graph);
  /// Passes of sampled labels for an optimizer that estimates the Hessian. They leave buffers and
  /// random state as they were.
  void estimate_hessian(OptimizerBinding& binding);
  /// Updates the weights. `check` is called before they change, with the norm of the gradients,
  /// 0-d, or undefined where fp16 overflowed and they do not.
  void apply(OptimizerBinding& binding, c10::function_ref<void(const at::Tensor& norm)> check);
  /// Reads and checks loss and norm in the step; returns the loss. On a device, where the host
  /// waits once, for the norm, it reads the loss then.
  double update_and_read(OptimizerBinding& binding, const PassLosses& losses);
  /// After an update of the recipe's optimizer.
  void balance_experts(const OptimizerBinding& binding);
  /// The mean loss of the global batch.
  double sum_losses(const OptimizerBinding& binding, const PassLosses& losses) const;
  double sum_losses_of_replicas(const PassLosses& losses) const;
  /// The numbers of the step before, of which this is the repetition; else null.
  const StepNumbers* repeated() const;
  StepLayout layout() const;
  /// A repeated micro-batch of a rank without samples.
  bool is_idle(const HostBatch& batch) const;
  [[noreturn]] void throw_out_of_memory(const OptimizerBinding& binding) const;
  void check_loss(double loss) const;
  void check_gradients(const OptimizerBinding& binding, double norm) const;
  void check_scale() const;
  /// "; the weights are those of the step before", and which are not.
  std::string weights_state() const;

  Job& job_;
  const StepInputs& inputs_;
  const std::vector<Batch>& batches_;
  const MicroBatchWeights& weights_;
  GroupRanks ranks_;
  double grad_norm_ = 0;
  bool updated_ = true;
  bool pending_ = false;
  c10::SmallVector<const OptimizerBinding*, 4> done_;  ///< those already updated in this step
  std::map<std::string, double> logged_;
};

}  // namespace accel
