// The passes of steps as a graph of the device: accelerator.cuda_graph.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/api/batch.h"
#include "core/api/parameter.h"
#include "kernels/device_graph.h"

namespace accel {

struct Job;

/// Records the forward and backward pass of one micro-batch and launches it for later ones, which
/// takes the host as long as one kernel. The update of the weights is not part of it.
class StepGraph {
 public:
  /// The pass of a batch: leaves gradients in `leaves` and returns the loss, 0-d.
  using Pass = std::function<at::Tensor(const Batch& batch)>;
  using MakeGraph = std::function<std::unique_ptr<DeviceGraph>()>;

  /// `leaves`: the trained tensors, which outlive this.
  StepGraph(MakeGraph make, const std::vector<Parameter>& leaves)
      : make_(std::move(make)), leaves_(leaves) {}

  /// Whether run() has the batch's pass: after the first two, in which libraries prepare
  /// themselves, for batches shaped as the first recorded one, and without gradients to add to.
  bool takes(const Batch& batch);
  /// Gradients and loss of the batch, valid until the next call. `pass` is that of every batch, on
  /// tensors of the graph. Throws Error (kRecipe) for a pass that cannot be recorded.
  at::Tensor run(const Batch& batch, const Pass& pass);

 private:
  void record(const Pass& pass);
  void give_gradients() const;

  MakeGraph make_;
  const std::vector<Parameter>& leaves_;
  int64_t passes_ = 0;
  std::unique_ptr<DeviceGraph> graph_;  ///< null until it is recorded
  Batch batch_;                         ///< what the graph reads
  at::Tensor loss_;                     ///< what it writes, with the gradients of the leaves
  std::vector<at::Tensor> gradients_;
};

/// Creates job.step_graph where `accelerator.cuda_graph` is set. Throws RecipeError for a job whose
/// passes are not the same work in each step, and Error (kRecipe) for a device without graphs.
void build_step_graph(Job& job);

}  // namespace accel
