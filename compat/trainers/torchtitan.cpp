// torchtitan configs: TOML of its versions before 2026, which had no configs in Python.
#include <algorithm>
#include <cmath>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/data_readings.h"
#include "compat/trainers/duration_texts.h"
#include "compat/trainers/fp8_readings.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/shared_readings.h"
#include "compat/trainers/torchtitan_mesh.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

/// Keys with their sections.
constexpr const char* kTitanStages =
    "stages are divided by planned cost; 'accelerator.pipeline.blocks' has other sizes";

constexpr TrainerKey kTitanKeys[] = {
    {"job.config_file", Use::kIdle},
    {"job.description", Use::kIdle},
    {"job.dump_folder", Use::kIdle},
    {"job.print_args", Use::kIdle},
    {"job.print_config", Use::kIdle},
    {"job.save_config_file", Use::kIdle},
    {"job.use_for_integration_test", Use::kIdle},
    {"job.custom_config_module", Use::kNot, import_reasons::kPython},
    {"profiling.enable_profiling", Use::kNot, "write the steps in 'profile.steps'", "false"},
    {"profiling.run_profiler", Use::kNot, "write the steps in 'profile.steps'", "false"},
    {"profiling.save_traces_folder", Use::kIdle},
    {"profiling.profile_freq", Use::kIdle},
    {"profiling.profile_every_x_iter", Use::kIdle},
    {"profiling.profiler_active", Use::kIdle},
    {"profiling.profiler_warmup", Use::kIdle},
    {"profiling.enable_memory_snapshot", Use::kNot, "memory is estimated by 'accel-run plan'",
     "false"},
    {"profiling.save_memory_snapshot_folder", Use::kIdle},
    {"metrics.log_freq", Use::kSteps, "log.every"},
    {"metrics.enable_tensorboard", Use::kRead, "", "false"},
    {"metrics.enable_wandb", Use::kRead, "", "false"},
    {"metrics.save_tb_folder", Use::kIdle},
    {"metrics.save_for_all_ranks", Use::kIdle},
    {"metrics.disable_color_printing", Use::kIdle},
    {"metrics.enable_color_printing", Use::kIdle},
    {"metrics.use_for_integration_test", Use::kIdle},
    {"model.name", Use::kRead},
    {"model.flavor", Use::kRead},
    {"model.hf_assets_path", Use::kRead},
    {"model.tokenizer_path", Use::kRead},
    {"model.norm_type", Use::kNot, "the model 'llama' has RMS norms", "rmsnorm"},
    {"model.converters", Use::kRead},
    {"optimizer.name", Use::kRead},
    {"optimizer.lr", Use::kRead},
    {"optimizer.beta1", Use::kRead},
    {"optimizer.beta2", Use::kRead},
    {"optimizer.eps", Use::kRead},
    {"optimizer.weight_decay", Use::kRead},
    {"optimizer.implementation", Use::kIdle},
    {"optimizer.fused", Use::kIdle},
    {"optimizer.early_step_in_backward", Use::kNot, "the optimizer runs after the backward pass",
     "false"},
    {"lr_scheduler.warmup_steps", Use::kRead},
    {"lr_scheduler.decay_ratio", Use::kRead},
    {"lr_scheduler.decay_type", Use::kRead},
    {"lr_scheduler.lr_min", Use::kRead, "", "0"},
    {"lr_scheduler.min_lr_factor", Use::kRead, "", "0"},
    {"training.warmup_steps", Use::kRead},
    {"training.dataset", Use::kRead},
    {"training.dataset_path", Use::kRead},
    {"training.local_batch_size", Use::kRead},
    {"training.batch_size", Use::kRead},
    {"training.global_batch_size", Use::kRead, "", "-1"},
    {"training.seq_len", Use::kRead},
    {"training.max_norm", Use::kCopy, "train.max_grad_norm"},
    {"training.steps", Use::kRead},
    {"training.seed", Use::kCopy, "seed"},
    {"training.deterministic", Use::kCopy, "train.deterministic", "false"},
    {"training.enable_cpu_offload", Use::kRead, "", "false"},
    {"training.mixed_precision_param", Use::kRead},
    {"training.mixed_precision_reduce", Use::kIdle},
    {"training.gc_freq", Use::kIdle},
    {"training.compile", Use::kLack, "compilation", "false"},
    {"training.fp8_linear", Use::kLack, "fp8", "false"},
    {"training.data_parallel_degree", Use::kIdle},
    {"training.data_parallel_replicate_degree", Use::kRead},
    {"training.data_parallel_shard_degree", Use::kRead},
    {"training.tensor_parallel_degree", Use::kRead},
    {"training.pipeline_parallel_degree", Use::kRead},
    {"parallelism.data_parallel_replicate_degree", Use::kRead},
    {"parallelism.data_parallel_shard_degree", Use::kRead},
    {"parallelism.fsdp_reshard_after_forward", Use::kRead},
    {"parallelism.tensor_parallel_degree", Use::kRead},
    {"parallelism.pipeline_parallel_degree", Use::kRead},
    {"parallelism.pipeline_parallel_schedule", Use::kRead},
    {"parallelism.pipeline_parallel_microbatch_size", Use::kRead},
    {"experimental.pipeline_parallel_schedule", Use::kRead},
    {"experimental.pipeline_parallel_microbatches", Use::kRead},
    {"parallelism.context_parallel_degree", Use::kRead},
    {"parallelism.context_parallel_rotate_method", Use::kRead},
    {"parallelism.context_parallel_load_balancer", Use::kIdle},
    {"parallelism.enable_async_tensor_parallel", Use::kIdle},
    {"parallelism.disable_loss_parallel", Use::kIdle},
    {"parallelism.enable_compiled_autograd", Use::kLack, "compilation", "false"},
    {"parallelism.pipeline_parallel_first_stage_less_layers", Use::kIdle},
    {"parallelism.pipeline_parallel_last_stage_less_layers", Use::kIdle},
    {"parallelism.pipeline_parallel_layers_per_stage", Use::kNot, kTitanStages},
    {"parallelism.pipeline_parallel_split_points", Use::kNot, kTitanStages},
    {"parallelism.module_fqns_per_model_part", Use::kNot, kTitanStages},
    {"parallelism.pipeline_parallel_schedule_csv", Use::kNot,
     "'accelerator.pipeline.schedule' names one of the built-in schedules"},
    {"parallelism.pipeline_parallel_expert_parallel_overlap", Use::kIdle},
    {"parallelism.expert_parallel_comm_backend", Use::kIdle},
    {"parallelism.expert_parallel_degree", Use::kCopy, "accelerator.parallelism.ep", "1"},
    {"parallelism.expert_tensor_parallel_degree", Use::kIdle},
    {"experimental.context_parallel_degree", Use::kRead},
    {"experimental.context_parallel_rotate_method", Use::kRead},
    {"experimental.pipeline_parallel_degree", Use::kRead},
    {"experimental.enable_async_tensor_parallel", Use::kIdle},
    {"experimental.torch_spmd", Use::kIdle},
    {"experimental.custom_args_module", Use::kNot, import_reasons::kPython},
    {"checkpoint.enable", Use::kRead},
    {"checkpoint.enable_checkpoint", Use::kRead},
    {"checkpoint.folder", Use::kIdle},
    {"checkpoint.interval", Use::kRead},
    {"checkpoint.interval_type", Use::kRead},
    {"checkpoint.keep_latest_k", Use::kCopy, "checkpoint.keep.last", "0"},
    {"checkpoint.initial_load_path", Use::kNot, "write a Hugging Face folder in 'model.weights'"},
    {"checkpoint.initial_load_in_hf", Use::kNot, "write the folder in 'model.weights'", "false"},
    {"checkpoint.last_save_model_only", Use::kIdle},
    {"checkpoint.last_save_in_hf", Use::kNot, "'accel-run export' writes such a folder", "false"},
    {"checkpoint.model_weights_only", Use::kIdle},
    {"checkpoint.export_dtype", Use::kIdle},
    {"checkpoint.async_mode", Use::kIdle},
    {"checkpoint.load_step", Use::kNot, "write a checkpoint in 'checkpoint.resume'", "-1"},
    {"float8.enable_float8_linear", Use::kLack, "fp8", "false"},
    {"activation_checkpoint.mode", Use::kRead},
    {"activation_checkpoint.selective_ac_option", Use::kRead},
    {"activation_checkpoint.memory_budget", Use::kRead},
    {"compile.enable", Use::kLack, "compilation", "false"},
    {"compile.components", Use::kIdle},
    {"comm.train_timeout_seconds", Use::kRead},
    {"comm.init_timeout_seconds", Use::kRead},
    {"fault_tolerance.enable", Use::kRead, "", "false"},
    {"fault_tolerance.semi_sync_method", Use::kRead},
    {"validation.enable", Use::kRead, "", "false"},
    {"validation.dataset", Use::kRead},
    {"validation.freq", Use::kRead},
    {"validation.steps", Use::kNot, "write 'limit' of the dataset in 'data.eval'", "-1"},
    {"debug.seed", Use::kCopy, "seed"},
    {"debug.deterministic", Use::kCopy, "train.deterministic", "false"},
};

/// Sections whose keys have no effect.
constexpr std::string_view kIdleSections =
    "quantize float8 mx memory_estimation fault_tolerance comm";

/// Sizes of a model of torchtitan.
struct TitanFlavor {
  const char* model;
  const char* flavor;
  int64_t hidden_size, num_layers, num_heads, num_kv_heads, intermediate_size, vocab_size;
};

constexpr TitanFlavor kFlavors[] = {
    {"llama", "debugmodel", 256, 8, 16, 16, 768, 0},
    {"llama2", "debugmodel", 256, 8, 16, 16, 768, 0},
    {"llama2", "7B", 4096, 32, 32, 32, 11008, 0},
    {"llama2", "13B", 5120, 40, 40, 40, 13824, 0},
    {"llama2", "70B", 8192, 80, 64, 8, 28672, 0},
    {"llama", "7B", 4096, 32, 32, 32, 11008, 0},
    {"llama", "13B", 5120, 40, 40, 40, 13824, 0},
    {"llama", "70B", 8192, 80, 64, 8, 28672, 0},
    {"llama3", "debugmodel", 256, 6, 16, 16, 768, 2048},
    {"llama3", "8B", 4096, 32, 32, 8, 14336, 128256},
    {"llama3", "70B", 8192, 80, 64, 8, 28672, 128256},
    {"llama3", "405B", 16384, 126, 128, 8, 53248, 128256},
    {"qwen3", "debugmodel", 256, 8, 16, 8, 3072, 2048},
    {"qwen3", "0.6B", 1024, 28, 16, 8, 3072, 151936},
    {"qwen3", "1.7B", 2048, 28, 16, 8, 6144, 151936},
    {"qwen3", "4B", 2560, 36, 32, 8, 9728, 151936},
    {"qwen3", "8B", 4096, 36, 32, 8, 12288, 151936},
    {"qwen3", "14B", 5120, 40, 40, 8, 17408, 151936},
    {"qwen3", "32B", 5120, 64, 64, 8, 25600, 151936},
};

/// The config as one section with dotted keys.
Node flat_config(const Node& tree, const std::string& prefix = "") {
  Node::Map flat;
  for (const Node::Entry& entry : *tree.map()) {
    const std::string key = prefix + entry.key;
    if (entry.node.map() && !entry.node.map()->empty()) {
      const Node inner = flat_config(entry.node, key + '.');
      flat.insert(flat.end(), inner.map()->begin(), inner.map()->end());
    } else {
      flat.push_back({key, entry.where, entry.node});
    }
  }
  return {std::move(flat), tree.where};
}

std::string torchtitan_shown_by(const Node& tree) {
  const Node::Entry *model = tree.find("model"), *training = tree.find("training");
  const bool titan = model && training && model->node.find("name") && training->node.map() &&
                     (model->node.find("flavor") || tree.find("job")) &&
                     (training->node.find("steps") || training->node.find("seq_len"));
  return titan ? "model.name, model.flavor, training.steps" : "";
}

/// Either of a key's names in torchtitan's versions; the first if there is none.
const char* either(const TrainerConfig& config, const char* key, const char* older) {
  return config.find(older) && !config.find(key) ? older : key;
}

void set_number(TrainerConfig& config, const char* target, int64_t value) {
  config.set_text(target, std::to_string(value), "model.flavor");
}

void read_titan_model(TrainerConfig& config) {
  const std::string name = config.text("model.name").value_or("llama3");
  const std::string flavor = config.text("model.flavor").value_or("debugmodel");
  const TitanFlavor* sizes = nullptr;
  bool known = false;
  for (const TitanFlavor& each : kFlavors) {
    known = known || name == each.model;
    if (name == each.model && flavor == each.flavor) sizes = &each;
  }
  if (!known) {
    return config.refuse("model.name", text("the model '{}' is not available", name),
                         "'accel-run list' shows the models");
  }
  if (!sizes) {
    return config.refuse("model.flavor",
                         text("the sizes of '{}' {} are unknown here", name, flavor),
                         "write them as options of the model 'llama'");
  }
  const bool qwen = name == "qwen3";
  config.set_text("model.type", "llama", "model.name");
  set_number(config, "model.hidden_size", sizes->hidden_size);
  set_number(config, "model.num_layers", sizes->num_layers);
  set_number(config, "model.num_heads", sizes->num_heads);
  set_number(config, "model.num_kv_heads", sizes->num_kv_heads);
  set_number(config, "model.intermediate_size", sizes->intermediate_size);
  if (sizes->vocab_size > 0) set_number(config, "model.vocab_size", sizes->vocab_size);
  config.put("model.norm_eps", qwen ? "1e-06" : "1e-05");
  config.put("model.rope.theta", qwen ? "1000000" : name == "llama3" ? "500000" : "10000");
  if (qwen) {
    config.put("model.head_dim", "128");
    config.put("model.qk_norm", "true");
    config.put("model.tie_embeddings", sizes->num_layers < 36 || flavor == "4B" ? "true" : "false");
  }
  config.remark("model: initial weights are drawn as those of the model 'llama' here");
  if (name == "llama3") {
    config.remark(
        "model: late versions of torchtitan scale RoPE as Llama 3.1; 'model.rope.scaling' does");
  }
}

void read_titan_data(TrainerConfig& config) {
  const char* tokens = either(config, "model.hf_assets_path", "model.tokenizer_path");
  config.set_text("vars.model", config.text(tokens).value_or("./tests/assets/tokenizer"), tokens);
  const auto name = config.text("training.dataset"), path = config.text("training.dataset_path");
  DataFile file;
  file.kind = DataFile::Kind::kWindows;
  file.path = path && is_text_file(*path) ? *path : name.value_or("c4_test");
  file.max_length = config.text("training.seq_len").value_or("2048");
  set_datasets(config, "data.train", {file}, path ? "training.dataset_path" : "training.dataset");
  config.take("training.dataset");
  config.set_text(length_key(file), file.max_length, "training.seq_len");
  if (!config.flag("validation.enable")) {
    config.set_text("eval.every", "never", "validation.enable");
    for (const char* key : {"validation.dataset", "validation.freq", "validation.steps"}) {
      config.ignore(key);
    }
    return;
  }
  file.path = config.text("validation.dataset").value_or("c4_validation");
  set_datasets(config, "data.eval", {file}, "validation.dataset");
  config.set_text("eval.every", config.text("validation.freq").value_or("10") + " steps",
                  "validation.freq");
  config.take("validation.enable");
}

void read_titan_optimizer(TrainerConfig& config) {
  const std::string name = config.text("optimizer.name").value_or("AdamW");
  if (name != "AdamW" && name != "Adam") {
    config.refuse("optimizer.name", text("the optimizer '{}' is not available", name),
                  "'accel-run list' shows the optimizers");
    return;
  }
  config.set_text("optimizer.type", ascii_lower(name), "optimizer.name");
  config.set_text("optimizer.lr", config.text("optimizer.lr").value_or("8e-4"), "optimizer.lr");
  const Node::List betas = {scalar_node(config.text("optimizer.beta1").value_or("0.9")),
                            scalar_node(config.text("optimizer.beta2").value_or("0.95"))};
  config.set("optimizer.betas", {betas, {}}, "optimizer.beta2");
  config.take("optimizer.beta1");
  if (const auto eps = config.text("optimizer.eps")) {
    config.set_text("optimizer.eps", *eps, "optimizer.eps");
  }
  config.set_text("optimizer.weight_decay", config.text("optimizer.weight_decay").value_or("0.1"),
                  "optimizer.weight_decay");
}

/// Warm-up, a constant rate, and a decay over the last `decay_ratio` of the steps.
void read_titan_schedule(TrainerConfig& config, double steps) {
  const char* warmup_key = either(config, "lr_scheduler.warmup_steps", "training.warmup_steps");
  const double warmup = config.number(warmup_key).value_or(200);
  const auto ratio = config.number("lr_scheduler.decay_ratio");
  const std::string shape = config.text("lr_scheduler.decay_type").value_or("linear");
  const auto least = config.text("lr_scheduler.min_lr_factor");
  const bool falls = !ratio || *ratio > 0;
  const double decay = ratio ? std::min(std::round(steps * *ratio), steps - warmup) : 0;
  constexpr auto kRatio = "lr_scheduler.decay_ratio", kShape = "lr_scheduler.decay_type";
  if (!falls) {
    config.set_text("scheduler.type", "constant", kRatio);
  } else if (!ratio && shape != "sqrt") {
    config.set_text("scheduler.type", shape, kShape);
  } else {
    config.set_text("scheduler.type", "wsd", kRatio);
    const double length = ratio ? decay : steps - warmup;
    config.set_text("scheduler.decay", to_string(Duration{length, Duration::Unit::kSteps}), kRatio);
    config.set_text("scheduler.decay_type", shape == "sqrt" ? "1-sqrt" : shape, kShape);
  }
  if (warmup > 0) {
    config.set_text("scheduler.warmup", interval_text(warmup), warmup_key);
    config.remark(
        "lr_scheduler.warmup_steps: the rate of torchtitan's first step is above 0, "
        "that of the recipe is 0");
  }
  const bool lifts = falls && config.number("lr_scheduler.min_lr_factor").value_or(0) > 0;
  if (lifts) config.set_text("scheduler.to", *least, "lr_scheduler.min_lr_factor");
  if (const auto old = config.number("lr_scheduler.lr_min"); old && *old > 0 && falls) {
    config.set_text("scheduler.to", *config.text("lr_scheduler.lr_min"), "lr_scheduler.lr_min");
  }
  for (const char* key : {kRatio, kShape, "lr_scheduler.min_lr_factor"}) config.ignore(key);
}

void read_titan_checkpointing(TrainerConfig& config) {
  constexpr auto kMode = "activation_checkpoint.mode";
  constexpr auto kOption = "activation_checkpoint.selective_ac_option";
  const std::string mode = config.text(kMode).value_or("selective");
  const std::string option = config.text(kOption).value_or("op");
  config.ignore(kOption);
  config.ignore("activation_checkpoint.memory_budget");
  if (config.is_none(kMode)) return;
  config.set_text("train.activation_checkpointing", mode == "full" ? "blocks" : "selective", kMode);
  if (mode == "selective" && option == "op") {
    config.remark(
        "activation_checkpoint.mode: torchtitan recomputes every second matrix product, this job "
        "none");
  } else if (mode != "full") {
    config.remark(text("{}: {} is not supported: outputs of matrix products are stored",
                       mode == "selective" ? kOption : kMode, mode == "selective" ? option : mode));
  }
}

void read_titan_length(TrainerConfig& config) {
  const double steps = config.number("training.steps").value_or(10'000);
  config.set_text("train.until", to_string(Duration{steps, Duration::Unit::kSteps}),
                  "training.steps");
  read_titan_schedule(config, steps);
  const char* local_key = either(config, "training.local_batch_size", "training.batch_size");
  const std::string local = config.text(local_key).value_or("8");
  const auto global = config.number("training.global_batch_size");
  read_titan_micro_batch(config, local, local_key);
  if (global && *global > 0) {
    config.set_text("train.batch", show_number(*global), "training.global_batch_size");
  } else {
    config.set_text("train.batch", local, local_key);
    config.put("data.loader.split_batches", "false");
  }
  read_titan_checkpointing(config);
  const std::string type = config.text("training.mixed_precision_param").value_or("bfloat16");
  if (!read_titan_fp8(config) && type == "bfloat16") {
    config.set_text("accelerator.mixed_precision", "bf16", "training.mixed_precision_param");
  }
  config.ignore("training.mixed_precision_param");
}

void read_titan_checkpoints(TrainerConfig& config) {
  const char* key = either(config, "checkpoint.enable", "checkpoint.enable_checkpoint");
  // The oldest versions saved where an interval was given.
  const bool saves =
      config.find(key) ? config.flag(key) : config.find("checkpoint.interval_type") != nullptr;
  const std::string interval = config.text("checkpoint.interval").value_or("500");
  const bool seconds = config.text("checkpoint.interval_type") == "seconds";
  if (saves) {
    config.set_text("checkpoint.every", interval + (seconds ? " s" : " steps"),
                    "checkpoint.interval");
    config.take(key);
  } else {
    config.set_text("checkpoint.every", "never", key);
    config.ignore("checkpoint.interval");
  }
  config.ignore("checkpoint.interval_type");
  Node::List trackers;
  for (const auto& [theirs, ours] : {std::pair("metrics.enable_tensorboard", "tensorboard"),
                                     std::pair("metrics.enable_wandb", "wandb")}) {
    if (!config.flag(theirs)) continue;
    trackers.push_back(scalar_node(ours));
    config.set("trackers", {trackers, {}}, theirs);
  }
  for (const auto& [theirs, ours] : {std::pair("comm.train_timeout_seconds", "timeout"),
                                     std::pair("comm.init_timeout_seconds", "join_timeout")}) {
    const auto value = config.text(theirs);
    if (value) config.set_text(std::string("accelerator.") + ours, *value + " s", theirs);
  }
}

void read_torchtitan(const Node& tree, Imported& out, const ProgramIndex& program) {
  const Node flat = flat_config(tree.map() ? tree : Node{Node::Map{}, tree.where});
  TrainerConfig config(flat, out, program);
  if (config.find("fault_tolerance.semi_sync_method")) {
    config.refuse_lacking("fault_tolerance.semi_sync_method", "fault tolerance");
  }
  read_titan_model(config);
  read_titan_data(config);
  read_titan_optimizer(config);
  read_titan_length(config);
  read_titan_checkpoints(config);
  read_titan_mesh(config);
  read_titan_fp8_gather(config);
  for (const Node::Entry& entry : *flat.map()) {
    const std::string section = entry.key.substr(0, entry.key.find('.'));
    const bool read = entry.key == "comm.train_timeout_seconds" ||
                      entry.key == "comm.init_timeout_seconds" ||
                      entry.key == "fault_tolerance.semi_sync_method" ||
                      entry.key == "float8.enable_float8_linear";
    if (has_word(kIdleSections, section) && !read) config.ignore(entry.key);
  }
  config.apply_table(kTitanKeys);
}

}  // namespace

const TrainerFormat kTorchtitan = {"torchtitan", "a torchtitan config", &torchtitan_shown_by,
                                   &read_torchtitan};

}  // namespace accel
