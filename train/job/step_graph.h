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

/// What the allocator of a device knows, in bytes.
struct DeviceMemory {
  int64_t free = 0;       ///< that no process has
  int64_t allocated = 0;  ///< to tensors
  int64_t peak = 0;       ///< of `allocated` since the last reset
};

/// Reads it.
class DeviceMeter {
 public:
  virtual ~DeviceMeter() = default;
  virtual DeviceMemory read() = 0;
  virtual void reset_peak() = 0;
};

/// Records the forward and backward pass of one micro-batch and launches it for later ones, which
/// takes the host as long as one kernel. The update of the weights is not part of it.
class StepGraph {
 public:
  /// The pass of a batch: leaves gradients in `leaves` and returns the loss, 0-d.
  using Pass = std::function<at::Tensor(const Batch& batch)>;
  using MakeGraph = std::function<std::unique_ptr<DeviceGraph>()>;

  /// `leaves`: the trained tensors, which outlive this. With a meter it records only if the device
  /// has the memory of a second step, and says so.
  StepGraph(MakeGraph make, const std::vector<Parameter>& leaves,
            std::unique_ptr<DeviceMeter> meter = nullptr)
      : make_(std::move(make)), leaves_(leaves), meter_(std::move(meter)) {}

  /// Whether run() has the batch's pass: after the first two, in which libraries prepare
  /// themselves, for batches shaped as the first recorded one, and without gradients to add to.
  /// Never where memory is short.
  bool takes(const Batch& batch);
  /// Gradients and loss of the batch, valid until the next call. `pass` is that of every batch, on
  /// tensors of the graph. Throws Error (kRecipe) for a pass that cannot be recorded.
  at::Tensor run(const Batch& batch, const Pass& pass);

 private:
  /// Compares what the step before took with the free memory, once.
  bool has_memory();
  void record(const Pass& pass);
  void give_gradients() const;

  MakeGraph make_;
  const std::vector<Parameter>& leaves_;
  std::unique_ptr<DeviceMeter> meter_;  ///< null: memory is not asked for
  int64_t passes_ = 0;
  int64_t allocated_ = 0;               ///< bytes, before the step that is measured
  bool is_short_ = false;               ///< of memory
  std::unique_ptr<DeviceGraph> graph_;  ///< null until it is recorded
  Batch batch_;                         ///< what the graph reads
  at::Tensor loss_;                     ///< what it writes, with the gradients of the leaves
  std::vector<at::Tensor> gradients_;
};

/// Creates job.step_graph where `accelerator.cuda_graph` is true. Throws RecipeError for a job
/// whose passes are not the same work in each step, and Error (kRecipe) for a device without
/// graphs; where it is auto, says why there is no graph instead.
void build_step_graph(Job& job);

}  // namespace accel
