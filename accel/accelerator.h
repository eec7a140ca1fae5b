// Accelerator: Accelerate's methods for custom training loops in libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "core/api/batch.h"
#include "core/api/optimizer.h"
#include "core/api/ranks.h"

namespace torch::nn {
class Module;
}

namespace accel {

/// An autocast scope.
class Casts;

/// An object with state in checkpoints: `custom_checkpoint_<k>.pkl`, in the order of
/// registration.
struct Registered {
  std::function<StateDict()> save;
  std::function<void(const StateDict&)> load;
};

struct AcceleratorOptions {
  int64_t gradient_accumulation_steps = 1;  ///< micro-batches per update
  std::string mixed_precision = "no";       ///< no, bf16 or fp16
  double max_grad_norm = 0;                 ///< 0: gradients are not clipped
  double timeout = 600;                     ///< of collectives, in seconds
};

/// A rank started by torchrun, mpirun or srun, or a single process. For one thread. Invalid options
/// and environments throw Error with an exit code.
class Accelerator {
 public:
  /// Joins the other ranks.
  explicit Accelerator(const AcceleratorOptions& options = {});
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  /// rank(), gather(), reduce(), pad_across_processes(), main_process_first() and others.
  Ranks& ranks();
  /// Prints a line on rank 0 only.
  void print(const std::string& text);

  /// Adds a model, which outlives this object, and makes its optimizer from a recipe's notation:
  /// "{type: adamw, lr: 0.001}". Broadcasts weights and buffers of rank 0. Several models are
  /// allowed. The caller sets learning rates.
  Optimizer& prepare(torch::nn::Module& module, const std::string& optimizer);

  /// Begins a micro-batch: call first in the loop body.
  void accumulate();
  /// Whether this is the last micro-batch of a global batch: step() acts only then.
  bool sync_gradients() const;
  /// For the forward pass.
  std::unique_ptr<Casts> autocast();
  /// The backward pass of a mean over this rank's samples. At the end of a global batch the
  /// optimizer's gradients are all-reduced to the mean over the global batch; before, they
  /// accumulate locally, as under Accelerate's no_sync().
  void backward(const at::Tensor& loss, Optimizer& optimizer);
  /// At the end of a global batch: clips, updates unless fp16 overflowed, and clears the gradients.
  /// Returns whether it updated.
  bool step(Optimizer& optimizer);
  /// Gradient norm of the last update, before clipping.
  double grad_norm() const;

  /// Sets a flag that the next check_trigger() returns on all ranks.
  void set_trigger();
  bool check_trigger();

  void register_for_checkpointing(Registered object);
  /// Writes Accelerate's files and a manifest, atomically; `folder` must not exist. All ranks call
  /// it, between global batches.
  void save_state(const std::string& folder);
  /// Restores a save_state() folder, with random state. Throws CheckpointError when a file is
  /// missing, damaged or does not fit.
  void load_state(const std::string& folder);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace accel
