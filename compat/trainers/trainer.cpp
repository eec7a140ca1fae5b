#include "compat/trainers/trainer.h"

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/data_readings.h"
#include "compat/trainers/decay_readings.h"
#include "compat/trainers/sharding_readings.h"
#include "compat/trainers/shared_readings.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

constexpr TrainerKey kTrainerKeys[] = {
    {"per_device_train_batch_size", Use::kRead},
    {"num_train_epochs", Use::kRead},
    {"max_steps", Use::kRead, "", "-1 0"},
    {"learning_rate", Use::kRead},
    {"lr_scheduler_type", Use::kRead},
    {"warmup_steps", Use::kRead, "", "0"},
    {"warmup_ratio", Use::kRead, "", "0"},
    {"optim", Use::kRead},
    {"weight_decay", Use::kRead},
    {"adam_beta1", Use::kRead},
    {"adam_beta2", Use::kRead},
    {"adam_epsilon", Use::kRead},
    {"gradient_accumulation_steps", Use::kRead},
    {"max_grad_norm", Use::kRead},
    {"bf16", Use::kRead, "", "false"},
    {"fp16", Use::kRead, "", "false"},
    {"logging_strategy", Use::kRead},
    {"logging_steps", Use::kRead},
    {"eval_strategy", Use::kRead},
    {"eval_steps", Use::kRead},
    {"per_device_eval_batch_size", Use::kRead},
    {"save_strategy", Use::kRead},
    {"save_steps", Use::kRead},
    {"save_total_limit", Use::kRead},
    {"load_best_model_at_end", Use::kRead, "", "false"},
    {"metric_for_best_model", Use::kRead},
    {"greater_is_better", Use::kRead},
    {"report_to", Use::kRead},
    {"run_name", Use::kRead},
    {"output_dir", Use::kRead},
    {"accelerator_config", Use::kRead},
    {"ddp_timeout", Use::kRead},
    {"evaluation_strategy", Use::kIdle},
    {"lr_scheduler_kwargs", Use::kRead},
    {"optim_args", Use::kNot, "write the options in 'optimizer'"},
    {"optim_target_modules", Use::kOther, "gradient projection"},
    {"average_tokens_across_devices", Use::kNot, "the loss is a mean over the tokens of all ranks",
     "true"},
    {"label_smoothing_factor", Use::kRead, "", "0"},
    {"bf16_full_eval", Use::kNot, "evaluation computes as training does", "false"},
    {"fp16_full_eval", Use::kNot, "evaluation computes as training does", "false"},
    {"tf32", Use::kCopy, "accelerator.tf32"},
    {"activation_checkpointing", Use::kRead, "", "false"},
    {"gradient_checkpointing", Use::kRead, "", "false"},
    {"fp16_backend", Use::kIdle},
    {"fp16_opt_level", Use::kIdle},
    {"use_mps_device", Use::kIdle},
    {"xpu_backend", Use::kIdle},
    {"tpu_num_cores", Use::kIdle},
    {"tpu_metrics_debug", Use::kIdle},
    {"sharded_ddp", Use::kLack, "sharding"},
    {"adafactor", Use::kRead, "", "false"},
    {"per_gpu_train_batch_size", Use::kNot, "it is per_device_train_batch_size today"},
    {"per_gpu_eval_batch_size", Use::kNot, "it is per_device_eval_batch_size today"},
    {"include_tokens_per_second", Use::kIdle},
    {"activation_checkpointing_kwargs", Use::kIdle},
    {"gradient_checkpointing_kwargs", Use::kIdle},
    {"torch_compile", Use::kLack, "compilation", "false"},
    {"torch_compile_backend", Use::kLack, "compilation"},
    {"torch_compile_mode", Use::kLack, "compilation"},
    {"use_liger_kernel", Use::kIdle},
    {"liger_kernel_config", Use::kIdle},
    {"use_cache", Use::kIdle},
    {"neftune_noise_alpha", Use::kRead, "", "0"},
    {"torch_empty_cache_steps", Use::kIdle},
    {"auto_find_batch_size", Use::kRead, "", "false"},
    {"logging_first_step", Use::kNot, "metrics are logged at multiples of 'log.every'", "false"},
    {"log_on_each_node", Use::kIdle},
    {"logging_nan_inf_filter", Use::kIdle},
    {"log_level", Use::kIdle},
    {"log_level_replica", Use::kIdle},
    {"disable_tqdm", Use::kIdle},
    {"eval_do_concat_batches", Use::kIdle},
    {"eval_use_gather_object", Use::kIdle},
    {"eval_accumulation_steps", Use::kIdle},
    {"batch_eval_metrics", Use::kIdle},
    {"save_on_each_node", Use::kIdle},
    {"remove_unused_columns", Use::kIdle},
    {"do_train", Use::kIdle},
    {"do_predict", Use::kIdle},
    {"local_rank", Use::kIdle},
    {"skip_memory_metrics", Use::kIdle},
    {"past_index", Use::kIdle},
    {"overwrite_output_dir", Use::kIdle},
    {"prediction_loss_only", Use::kIdle},
    {"dataloader_in_order", Use::kIdle},
    {"dataloader_persistent_workers", Use::kIdle},
    {"dataloader_pin_memory", Use::kIdle},
    {"dataloader_multiprocessing_context", Use::kIdle},
    {"ddp_find_unused_parameters", Use::kIdle},
    {"ddp_static_graph", Use::kIdle},
    {"restore_callback_states_from_checkpoint", Use::kIdle},
    {"length_column_name", Use::kIdle},
    {"logging_dir", Use::kIdle},
    {"save_safetensors", Use::kIdle},
    {"include_inputs_for_metrics", Use::kIdle},
    {"no_cuda", Use::kIdle},
    {"use_legacy_prediction_loop", Use::kIdle},
    {"jit_mode_eval", Use::kIdle},
    {"use_ipex", Use::kIdle},
    {"enable_jit_checkpoint", Use::kIdle},
    {"dispatch_batches", Use::kIdle},
    {"split_batches", Use::kNot, "write 'data.loader.split_batches'", "false"},
    {"half_precision_backend", Use::kIdle},
    {"ray_scope", Use::kIdle},
    {"project", Use::kIdle},
    {"do_eval", Use::kIdle},
    {"include_num_input_tokens_seen", Use::kNot, "tokens are always counted, in metrics.jsonl",
     "no false"},
    {"trackio_space_id", Use::kLack, "upload"},
    {"trackio_bucket_id", Use::kLack, "upload"},
    {"trackio_static_space_id", Use::kLack, "upload"},
    {"eval_delay", Use::kNot, "evaluation has no delay", "0"},
    {"eval_on_start", Use::kCopy, "eval.at_start"},
    {"include_for_metrics", Use::kNot, "metrics receive predictions and targets only"},
    {"save_only_model", Use::kNot, "a checkpoint always has the whole training state", "false"},
    {"push_to_hub", Use::kLack, "upload", "false"},
    {"hub_private_repo", Use::kIdle},
    {"hub_model_id", Use::kIdle},
    {"hub_strategy", Use::kIdle},
    {"hub_always_push", Use::kIdle},
    {"hub_revision", Use::kIdle},
    {"hub_token", Use::kIdle},
    {"push_to_hub_token", Use::kIdle},
    {"push_to_hub_model_id", Use::kIdle},
    {"push_to_hub_organization", Use::kIdle},
    {"ignore_data_skip", Use::kNot, "a resumed run always skips the samples it has seen", "false"},
    {"full_determinism", Use::kCopy, "train.deterministic"},
    {"seed", Use::kCopy, "seed"},
    {"data_seed", Use::kNot, "weights and data have one seed"},
    {"use_cpu", Use::kRead},
    {"parallelism_config", Use::kNot, "write 'accelerator.parallelism'"},
    {"dataloader_drop_last", Use::kCopy, "data.loader.drop_last"},
    {"dataloader_num_workers", Use::kCopy, "data.loader.workers"},
    {"dataloader_prefetch_factor", Use::kIdle},
    {"label_names", Use::kNot, "the dataset defines the targets"},
    {"group_by_length", Use::kRead, "", "false"},
    {"train_sampling_strategy", Use::kRead, "", "random"},
    {"ddp_bucket_cap_mb", Use::kCopy, "accelerator.ddp.bucket_cap_mb"},
    {"ddp_broadcast_buffers", Use::kCopy, "accelerator.ddp.broadcast_buffers"},
    {"ddp_backend", Use::kNot, "CPU ranks have a backend of accel-run, GPU ranks NCCL",
     "gloo nccl"},
    {"fsdp", Use::kRead, "", "false"},
    {"fsdp_config", Use::kRead, "", "0 false"},
    {"fsdp_min_num_params", Use::kIdle},
    {"fsdp_transformer_layer_cls_to_wrap", Use::kIdle},
    {"deepspeed", Use::kRead},
    {"debug", Use::kNot, "write 'accelerator.debug' for checks of collectives"},
    {"resume_from_checkpoint", Use::kRead, "", "false"},
    {"torchdynamo", Use::kLack, "compilation"},
    {"mp_parameters", Use::kLack, "sharding"},
};

/// Arguments that Python scripts have beside TrainingArguments.
constexpr TrainerKey kScriptKeys[] = {
    {"model_name_or_path", Use::kRead},
    {"train_file", Use::kNot, "write it in 'data.train'"},
    {"dataset_name", Use::kNot, "write it in 'data.train'"},
    {"max_seq_length", Use::kNot, "write it in 'data.train'"},
    {"template_name", Use::kNot, "write 'data.train.chat_template'"},
    {"train_mode", Use::kRead, "", "full"},
    {"task_type", Use::kNot, "write the task in 'task'", "sft pretrain"},
    {"lora_rank", Use::kIdle},
    {"lora_r", Use::kIdle},
    {"lora_alpha", Use::kIdle},
    {"lora_dropout", Use::kIdle},
    {"lora_target_modules", Use::kIdle},
    {"use_dora", Use::kIdle},
    {"use_unsloth", Use::kIdle},
    {"tokenize_num_workers", Use::kIdle},
};

constexpr TrainerKey kAcceleratorConfigKeys[] = {
    {"split_batches", TrainerKey::Use::kRead},
    {"dispatch_batches", TrainerKey::Use::kCopy, "data.loader.dispatch_batches", "false"},
    {"even_batches", TrainerKey::Use::kCopy, "data.loader.even_batches"},
    {"use_seedable_sampler", TrainerKey::Use::kNot,
     "write it in 'compat', with 'dataloader_generator: shared'", "true"},
    {"non_blocking", TrainerKey::Use::kIdle},
    {"gradient_accumulation_kwargs", TrainerKey::Use::kNot,
     "gradient accumulation has no further options"},
};

std::string trainer_shown_by(const Node& tree) {
  for (const char* key : {"per_device_train_batch_size", "num_train_epochs"}) {
    if (tree.find(key)) return key;
  }
  return {};
}

void read_accelerator_config(TrainerConfig& config) {
  const Node::Entry* section = config.find("accelerator_config");
  if (!section || !section->node.map()) return;
  TrainerConfig inner(section->node, config.out(), config.program(), "accelerator_config.");
  if (inner.flag("split_batches")) {
    inner.set_text("data.loader.split_batches", "true", "split_batches");
  } else {
    inner.ignore("split_batches");
  }
  inner.apply_table(kAcceleratorConfigKeys);
  config.close("accelerator_config");
}

/// The arguments of a Python script, which often stand beside TrainingArguments, can select a
/// method.
void check_script_arguments(TrainerConfig& config) {
  constexpr std::string_view kPreferences = "dpo ipo kto orpo simpo cpo rm reward";
  for (const char* key : {"task_type", "train_mode", "stage", "finetuning_type", "method"}) {
    const std::string word = ascii_lower(config.text(key).value_or(""));
    if (has_word(kPreferences, word) && !word.empty()) {
      config.refuse_lacking(key, "preference");
    } else if (has_word("ppo grpo rloo", word) && !word.empty()) {
      config.refuse_lacking(key, "rl");
    } else if (word == "qlora") {
      config.refuse_lacking(key, "quantization");
    }
  }
  for (const char* key : {"load_in_4bit", "load_in_8bit", "quantization_bit"}) {
    const Node::Entry* entry = config.find(key);
    if (entry && !is_unset(entry->node, "false 0")) config.refuse_lacking(key, "quantization");
  }
  const bool lora = ascii_lower(config.text("train_mode").value_or("")) == "lora";
  for (const char* key : {"lora_rank", "lora_r"}) {
    if (!config.find(key) || lora) continue;
    config.refuse(key,
                  "a Python script reads it: whether it trains an adapter is not in the config",
                  "write 'model.lora' in a recipe");
  }
}

/// Label smoothing is an option of one task.
void read_label_smoothing(TrainerConfig& config) {
  constexpr auto kKey = "label_smoothing_factor";
  if (config.number(kKey).value_or(0) <= 0) return;
  config.put("task.type", "classification");
  config.set_text("task.label_smoothing", *config.text(kKey), kKey);
  config.remark(
      "label_smoothing_factor: the recipe has the task classification, the task with this option");
}

void read_trainer(const Node& tree, Imported& out, const ProgramIndex& program) {
  TrainerConfig config(tree, out, program);
  check_script_arguments(config);
  std::string type;
  if (config.find("model_name_or_path")) type = read_model_folder(config, "model_name_or_path");
  if (config.text("train_mode") == "lora") {
    read_lora(config,
              {.rank = config.find("lora_r") ? "lora_r" : "lora_rank",
               .alpha = "lora_alpha",
               .dropout = "lora_dropout",
               .targets = "lora_target_modules",
               .saved = "lora_modules_to_save",
               .rslora = "use_rslora",
               .dora = "use_dora",
               .all_by_default = true},
              type);
    config.take("train_mode");
  }
  const bool adafactor = config.flag("adafactor");
  read_training_arguments(config, {.optimizer = adafactor ? "adafactor_name" : "optim"},
                          {.optimizer = adafactor ? "adafactor" : "adamw_torch_fused"});
  config.take("adafactor");
  read_trainer_options(config);
  read_decay_exclusions(config, type, config.text("model_name_or_path").value_or(""));
  read_accelerator_config(config);
  read_label_smoothing(config);
  std::vector<TrainerKey> keys(std::begin(kScriptKeys), std::end(kScriptKeys));
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.apply_table(keys);
  if (!config.has("model")) config.miss("'model': TrainingArguments have no model");
  config.miss("'data': TrainingArguments have no data");
}

}  // namespace

std::span<const TrainerKey> trainer_keys() {
  return kTrainerKeys;
}

void read_trainer_options(TrainerConfig& config) {
  const char* key = config.find("run_name") ? "run_name" : "output_dir";
  const std::string name = valid_run_name(config.text(key).value_or(""));
  if (!name.empty()) config.set_text("name", name, key);
  config.ignore("output_dir");
  if (config.flag("use_cpu")) {
    config.set_text("accelerator.device", "cpu", "use_cpu");
  } else {
    config.ignore("use_cpu");
  }
  read_trainer_sharding(config);
  read_ddp_timeout(config);
}

void read_ddp_timeout(TrainerConfig& config) {
  if (const auto seconds = config.text("ddp_timeout")) {
    config.set_text("accelerator.timeout", *seconds + " s", "ddp_timeout");
  }
}

const TrainerFormat kTrainer = {"trainer", "Hugging Face's TrainingArguments", &trainer_shown_by,
                                &read_trainer};

}  // namespace accel
