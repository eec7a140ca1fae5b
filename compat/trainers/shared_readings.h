// Conversions that several formats share: the arguments of Hugging Face's Trainer for optimizers,
// schedules and intervals, and classes of torch.optim.
#pragma once

#include <string>

#include "compat/trainers/import_recipe.h"

namespace accel {

/// Keys of shared arguments.
struct ArgumentNames {
  const char* optimizer = "optim";
  const char* schedule = "lr_scheduler_type";
  const char* batch = "per_device_train_batch_size";
  const char* eval_batch = "per_device_eval_batch_size";
  const char* epochs = "num_train_epochs";
  const char* precision_bf16 = "bf16";
  const char* precision_fp16 = "fp16";
};

/// Values that a trainer has for keys that are not given.
struct ArgumentDefaults {
  const char* optimizer = "adamw_torch_fused";
  const char* lr = "5e-05";  ///< "": it must be given
  const char* schedule = "linear";
  const char* warmup = "";  ///< of the recipe: "3%"
  double batch = 8;
  double epochs = 3;
  const char* log = "500 steps";  ///< "": as accel-run logs
  const char* save = "500 steps";
  const char* keep = "";
  bool steps_evaluate = false;  ///< eval_steps evaluate without eval_strategy
  bool bf16 = false;
  bool activation_checkpointing = false;
  bool null_is_unset = false;  ///< `max_grad_norm: null` clips as without the key
};

/// Reads optimizer, schedule, batch sizes, length, intervals, trackers and precision.
void read_training_arguments(TrainerConfig& config, const ArgumentNames& words,
                             const ArgumentDefaults& defaults);

/// `train.activation_cpu_offload` of a flag; a remark if no block is recomputed.
void read_activation_offloading(TrainerConfig& config, const char* key, bool recomputes);

/// The callback `early_stop` with the patience of `key`.
void read_early_stopping(TrainerConfig& config, const char* key);

/// The class of an optimizer of torch.optim or bitsandbytes as `optimizer.type`; refuses others.
void read_optimizer_class(TrainerConfig& config, const std::string& key, const std::string& name);

/// Sets `optimizer.weight_decay` to the class's default where it differs and no value is given.
void set_class_decay(TrainerConfig& config, const std::string& name);

/// Reads the keys of optimizers that torch's classes have in common.
std::span<const TrainerKey> optimizer_class_keys();

/// Reads `loss` keys of label smoothing: refuses it for a language model.
void refuse_label_smoothing(TrainerConfig& config, const char* key);

/// A valid run name; other characters become '-'.
std::string valid_run_name(std::string text);

namespace import_reasons {
constexpr auto kHandKernels = "kernels are selected by 'accelerator.kernels'";
constexpr auto kPython = "it configures Python";
constexpr auto kPartOfData = "write 'limit' of the dataset for it";
constexpr auto kRemoteCode = "code in a model's folder is not run";
}  // namespace import_reasons

}  // namespace accel
