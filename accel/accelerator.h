// For a training loop of your own: Accelerate's methods around plain libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "core/batch.h"
#include "core/optimizer.h"
#include "core/ranks.h"

namespace torch::nn {
class Module;
}

namespace accel {

/// Casts as autocast does until it is destroyed, last made first.
class Casts;

/// Something of yours that checkpoints keep: `custom_checkpoint_<k>.pkl`, in the order of
/// registration.
struct Registered {
  std::function<StateDict()> save;
  std::function<void(const StateDict&)> load;
};

struct AcceleratorOptions {
  int64_t gradient_accumulation_steps = 1;  ///< calls of backward() that make one update
  std::string mixed_precision = "no";       ///< no, bf16 or fp16
  double max_grad_norm = 0;                 ///< 0: gradients are not clipped
  double timeout = 600;                     ///< seconds that ranks wait for each other
};

/// One process of a run that torchrun, mpirun or srun started, or one alone. Not copied, for one
/// thread. Wrong options and wrong surroundings throw Error with the exit code to end with.
class Accelerator {
 public:
  /// Meets the other ranks.
  explicit Accelerator(const AcceleratorOptions& options = {});
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  /// rank(), gather(), reduce(), pad_across_processes(), main_process_first() and their like.
  Ranks& ranks();
  /// On rank 0 alone, with a line's end.
  void print(const std::string& text);

  /// Takes a model, which outlives this object, and makes its optimizer as a recipe names it:
  /// "{type: adamw, lr: 0.001}". All ranks then have the weights and buffers of rank 0. May be
  /// called for several models. The learning rates are the caller's to set.
  Optimizer& prepare(torch::nn::Module& module, const std::string& optimizer);

  /// Begins a micro-batch: to be called first in the loop's body.
  void accumulate();
  /// Whether this micro-batch ends a window: step() acts only then.
  bool sync_gradients() const;
  /// Around the forward pass.
  std::unique_ptr<Casts> autocast();
  /// The backward pass of a mean over this rank's samples. At the end of a window the gradients of
  /// the optimizer's parameters are then the mean over the window and all ranks; until then they
  /// only add up here, as under Accelerate's no_sync().
  void backward(const at::Tensor& loss, Optimizer& optimizer);
  /// At the end of a window: clips, makes the update unless fp16 has overflowed, and drops the
  /// gradients. Whether there was an update.
  bool step(Optimizer& optimizer);
  /// Of the last update, before clipping.
  double grad_norm() const;

  /// Raises a flag that check_trigger() finds on all ranks, once.
  void set_trigger();
  bool check_trigger();

  void register_for_checkpointing(Registered object);
  /// Writes Accelerate's files, with a manifest, whole or not at all; `folder` must not be there
  /// yet. All ranks call it, between windows.
  void save_state(const std::string& folder);
  /// Puts back what save_state() wrote, the random state too. Throws CheckpointError when a part is
  /// missing, damaged, or another.
  void load_state(const std::string& folder);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace accel
