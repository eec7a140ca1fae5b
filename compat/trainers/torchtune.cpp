// torchtune configs, whose sections name Python components by `_component_`.
#include "compat/trainers/data_readings.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/model_families.h"
#include "compat/trainers/sharding_readings.h"
#include "compat/trainers/shared_readings.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

constexpr auto kComponent = "_component_";

constexpr TrainerKey kTorchtuneKeys[] = {
    {"output_dir", Use::kRead},
    {"name", Use::kIdle},
    {"base_model_path", Use::kIdle},
    {"model", Use::kRead},
    {"tokenizer", Use::kRead},
    {"checkpointer", Use::kRead},
    {"dataset", Use::kRead},
    {"dataset_val", Use::kNot, "write it in 'data.eval'"},
    {"optimizer", Use::kRead},
    {"lr_scheduler", Use::kRead},
    {"loss", Use::kRead},
    {"metric_logger", Use::kRead},
    {"batch_size", Use::kRead},
    {"batch_size_val", Use::kRead},
    {"gradient_accumulation_steps", Use::kRead},
    {"epochs", Use::kRead},
    {"max_steps_per_epoch", Use::kRead},
    {"seed", Use::kCopy, "seed"},
    {"shuffle", Use::kCopy, "data.loader.shuffle"},
    {"collate_fn", Use::kIdle},
    {"resume_from_checkpoint", Use::kIdle},
    {"save_adapter_weights_only", Use::kIdle},
    {"save_every_n_epochs", Use::kRead},
    {"run_val_every_n_steps", Use::kSteps, "eval.every"},
    {"save_every_n_steps", Use::kSteps, "checkpoint.every"},
    {"clip_grad_norm", Use::kCopy, "train.max_grad_norm"},
    {"optimizer_in_bwd", Use::kNot, "the optimizer runs after the backward pass", "false"},
    {"compile", Use::kLack, "compilation", "false"},
    {"device", Use::kRead},
    {"dtype", Use::kRead},
    {"enable_activation_checkpointing", Use::kRead, "", "false"},
    {"enable_activation_offloading", Use::kRead, "", "false"},
    {"ac_mode", Use::kIdle},
    {"ac_option", Use::kIdle},
    {"custom_sharded_layers", Use::kIdle},
    {"memory_efficient_fsdp_wrap", Use::kIdle},
    {"low_cpu_ram", Use::kIdle},
    {"use_distributed_state_dict", Use::kIdle},
    {"use_flex", Use::kIdle},
    {"fsdp", Use::kRead, "", "false"},
    {"fsdp_cpu_offload", Use::kRead},
    {"fsdp_reshard_after_forward", Use::kRead},
    {"tensor_parallel_dim", Use::kRead},
    {"tensor_parallel_plan", Use::kIdle},
    {"data_parallel_replicate_dim", Use::kRead},
    {"data_parallel_shard_dim", Use::kRead},
    {"log_every_n_steps", Use::kSteps, "log.every"},
    {"log_level", Use::kIdle},
    {"log_peak_memory_stats", Use::kCopy, "log.system"},
    {"profiler", Use::kRead},
    {"quantizer", Use::kOther, "qat"},
    {"teacher_model", Use::kOther, "distillation"},
    {"teacher_checkpointer", Use::kIdle},
    {"kd_loss", Use::kOther, "distillation"},
    {"kd_ratio", Use::kIdle},
    {"ref_checkpointer", Use::kIdle},
    {"policy_model", Use::kOther, "rl"},
    {"reward_and_value_model", Use::kOther, "rl"},
    {"reward_functions", Use::kOther, "rl"},
    {"grpo_samples", Use::kOther, "rl"},
    {"orchestration", Use::kOther, "rl"},
};

constexpr TrainerKey kTuneSchedulerKeys[] = {
    {kComponent, Use::kRead},
    {"num_warmup_steps", Use::kSteps, "scheduler.warmup"},
    {"num_cycles", Use::kCopy, "scheduler.cycles"},
};

constexpr TrainerKey kTuneFileKeys[] = {
    {kComponent, Use::kRead},
    {"checkpoint_dir", Use::kRead},
    {"checkpoint_files", Use::kIdle},
    {"model_type", Use::kIdle},
    {"output_dir", Use::kIdle},
    {"recipe_checkpoint", Use::kNot, "write a checkpoint of accel-run in 'checkpoint.resume'"},
    {"adapter_checkpoint", Use::kNot, "write a folder of PEFT in 'model.lora.adapter'"},
    {"keep_last_n_checkpoints", Use::kCopy, "checkpoint.keep.last"},
    {"safe_serialization", Use::kIdle},
    {"path", Use::kIdle},
    {"merges_file", Use::kIdle},
    {"merges_path", Use::kIdle},
    {"vocab_path", Use::kIdle},
    {"max_seq_len", Use::kRead},
    {"prompt_template", Use::kNot, "write 'data.train.chat_template'"},
    {"log_dir", Use::kIdle},
    {"project", Use::kNot, "write a tracker of type wandb with this 'project'"},
};

constexpr TrainerKey kTuneDatasetKeys[] = {
    {kComponent, Use::kRead},
    {"source", Use::kRead},
    {"data_files", Use::kRead},
    {"column", Use::kRead},
    {"conversation_column", Use::kRead},
    {"conversation_style", Use::kRead},
    {"split", Use::kRead},
    {"packed", Use::kRead, "", "false"},
    {"train_on_input", Use::kRead, "", "false"},
    {"add_eos", Use::kRead, "", "true"},
    {"subset", Use::kNot, "a file has one set"},
};

constexpr TrainerKey kLoraModelKeys[] = {
    {kComponent, Use::kRead},
    {"lora_rank", Use::kRead},
    {"lora_alpha", Use::kRead},
    {"lora_attn_modules", Use::kRead},
    {"apply_lora_to_mlp", Use::kRead, "", "false"},
    {"apply_lora_to_output", Use::kRead, "", "false"},
    {"lora_dropout", Use::kCopy, "model.lora.dropout", "0"},
    {"use_dora", Use::kIdle},
    {"quantize_base", Use::kOther, "quantization", "false"},
};

std::string torchtune_shown_by(const Node& tree) {
  for (const Node::Entry& entry : *tree.map()) {
    if (entry.node.find(kComponent)) return entry.key + '.' + kComponent;
  }
  return {};
}

/// The `_component_` of a section: "torch.optim.AdamW".
std::string component_path(const TrainerConfig& config, const std::string& key) {
  const Node::Entry* section = config.find(key);
  const Node::Entry* name = section ? section->node.find(kComponent) : nullptr;
  return name && name->node.scalar() ? name->node.scalar()->text : std::string();
}

/// Its last name: "AdamW".
std::string component_in(const TrainerConfig& config, const std::string& key) {
  const std::string path = component_path(config, key);
  return path.substr(path.rfind('.') + 1);
}

/// Reads a nested section by its table, key by key.
class TuneSection {
 public:
  TuneSection(TrainerConfig& outer, const std::string& key)
      : outer_(outer),
        key_(key),
        section_(outer.find(key)),
        inner_(section_ ? section_->node : kNone, outer.out(), outer.program(), key + '.') {}

  TrainerConfig& inner() { return inner_; }
  void end(std::span<const TrainerKey> keys) {
    if (!section_) return;
    if (!section_->node.map()) return outer_.skip(key_, "it is not a section");
    if (section_->node.map()->empty()) return outer_.ignore(key_);
    inner_.ignore(kComponent);
    inner_.apply_table(keys);
    outer_.close(key_);
  }

 private:
  static inline const Node kNone = {Node::Map{}, {}};
  TrainerConfig& outer_;
  std::string key_;
  const Node::Entry* section_;
  TrainerConfig inner_;
};

void read_tune_optimizer(TrainerConfig& config) {
  if (!config.find("optimizer")) {
    config.refuse("optimizer", "the config has no optimizer: it does not train");
    return;
  }
  TuneSection section(config, "optimizer");
  const std::string name = component_in(config, "optimizer");
  read_optimizer_class(section.inner(), kComponent, name);
  section.end(optimizer_class_keys());
  set_class_decay(section.inner(), name);
}

void read_tune_schedule(TrainerConfig& config) {
  TuneSection section(config, "lr_scheduler");
  const std::string name = component_in(config, "lr_scheduler");
  if (name == "get_cosine_schedule_with_warmup") {
    section.inner().set_text("scheduler.type", "cosine", kComponent);
  } else if (!name.empty()) {
    section.inner().refuse(kComponent, text("the schedule '{}' is not available", name),
                           "'accel-run list' shows the schedulers");
  } else {
    config.set_text("scheduler.type", "constant", "lr_scheduler");
  }
  section.end(kTuneSchedulerKeys);
}

/// Replaces references to other keys, such as `${output_dir}`.
std::string resolved(const TrainerConfig& config, std::string text) {
  for (int i = 0; i < 8; ++i) {
    const size_t begin = text.find("${");
    const size_t end = text.find('}', begin);
    if (begin == text.npos || end == text.npos) break;
    const auto value = config.text(text.substr(begin + 2, end - begin - 2));
    if (!value) break;
    text.replace(begin, end + 1 - begin, *value);
  }
  return text;
}

/// torchtune names the layers of attention and adds others by switches.
void read_tune_lora(TrainerConfig& config) {
  TuneSection model(config, "model");
  TrainerConfig& keys = model.inner();
  keys.set_text("model.lora.rank", keys.text("lora_rank").value_or("8"), "lora_rank");
  keys.set_text("model.lora.alpha", keys.text("lora_alpha").value_or("16"), "lora_alpha");
  if (keys.flag("use_dora")) keys.set_text("model.lora.dora", "true", "use_dora");
  Node::List targets;
  const auto add = [&](const std::string& layer) {
    targets.push_back(scalar_node("*." + layer, true));
  };
  if (const Node::Entry* layers = keys.find("lora_attn_modules")) {
    for (const Node& item : layers->node.list() ? *layers->node.list() : Node::List{}) {
      const std::string name = item.scalar() ? item.scalar()->text : "";
      add(name == "output_proj" ? "o_proj" : name);
    }
  }
  if (keys.flag("apply_lora_to_mlp")) {
    for (const char* layer : {"gate_proj", "up_proj", "down_proj"}) add(layer);
  }
  if (keys.flag("apply_lora_to_output")) targets.push_back(scalar_node("lm_head", true));
  if (!targets.empty()) keys.set("model.lora.target_modules", {targets, {}}, "lora_attn_modules");
  for (const char* taken : {"apply_lora_to_mlp", "apply_lora_to_output"}) {
    if (keys.flag(taken)) keys.take(taken);
  }
  model.end(kLoraModelKeys);
}

/// A model builder that is not one of a language model's weights is another method.
void check_tune_model(TrainerConfig& config) {
  const std::string path = component_path(config, "model"), name = component_in(config, "model");
  if (path.empty()) {
    if (!config.find("policy_model") && !config.find("orchestration")) {
      config.refuse("model", "the config has no model: it does not train");
    }
    return;
  }
  const ModelFamily family = torchtune_family(path);
  if (name.starts_with("qlora") || name.starts_with("qat")) {
    return config.refuse_lacking("model", name.starts_with("qat") ? "qat" : "quantization");
  }
  if (name.find("reward") != name.npos || name.find("classifier") != name.npos) {
    return config.refuse_lacking("model", "preference");
  }
  if (family.type.empty()) {
    return config.refuse("model", text("the model '{}' is not available", name),
                         "'accel-run explain model auto' shows the models of Hugging Face folders");
  }
  check_family(config, "model", name, family.type);
}

void read_tune_model(TrainerConfig& config) {
  check_tune_model(config);
  TuneSection files(config, "checkpointer");
  if (const auto folder = files.inner().text("checkpoint_dir")) {
    files.inner().set_text("vars.model", resolved(config, *folder), "checkpoint_dir");
    config.put("model.type", "auto");
    config.put("model.weights", "${vars.model}");
    if (component_in(config, "checkpointer").find("Meta") != std::string::npos) {
      files.inner().skip(kComponent, "it reads Meta's files: download those of Hugging Face");
    }
  } else {
    config.miss("'model': 'checkpointer' names no folder");
  }
  if (component_in(config, "model").find("lora") != std::string::npos) {
    read_tune_lora(config);
  } else {
    TuneSection model(config, "model");
    model.end({});
  }
  files.end(kTuneFileKeys);
}

/// Why a dataset has no counterpart, or "".
std::string read_tune_dataset(TrainerConfig& config, TrainerConfig& data, DataFile& file) {
  const std::string name = component_in(config, "dataset");
  const auto source = data.text("source"), files = data.text("data_files");
  file.path = resolved(config, files.value_or(source.value_or("")));
  file.split = data.text("split").value_or("");
  if (name == "text_completion_dataset") {
    file.kind = data.flag("packed") ? DataFile::Kind::kWindows : DataFile::Kind::kDocuments;
    file.field = data.text("column").value_or("text");
    file.append_eos = data.text("add_eos").value_or("true") != "false";
    if (!file.append_eos && file.kind == DataFile::Kind::kWindows) {
      return "'add_eos: false' with 'packed': an end token follows each text of a window";
    }
  } else if (name == "chat_dataset" && data.text("conversation_style") == "openai") {
    file.field = data.text("conversation_column").value_or("");
    file.pack = data.flag("packed");
    file.answers_only = !data.flag("train_on_input");
  } else {
    return text("{}: write its conversations in 'data.train' as type chat", name);
  }
  return file.path.empty() ? "it names no file" : "";
}

void read_tune_data(TrainerConfig& config) {
  TuneSection data(config, "dataset"), tokens(config, "tokenizer");
  if (!config.find("dataset")) return tokens.end(kTuneFileKeys);
  DataFile file;
  const auto length = tokens.inner().text("max_seq_len");
  file.max_length = length.value_or("2048");
  const std::string reason = config.find("dataset")->node.map()
                                 ? read_tune_dataset(config, data.inner(), file)
                                 : "it is a list: write each in the list 'data.train'";
  if (!reason.empty()) {
    config.skip("dataset", reason);
    config.miss("'data': the recipe has none");
    if (length) tokens.inner().skip("max_seq_len", "write it in 'data.train'");
    return tokens.end(kTuneFileKeys);
  }
  if (file.kind == DataFile::Kind::kWindows) {
    config.remark("dataset.packed: texts are concatenated, and attention crosses their borders");
  }
  set_datasets(config, "data.train", {file}, "dataset");
  for (const char* key : {"data_files", "column", "source", "split", "packed", "train_on_input",
                          "conversation_column", "conversation_style"}) {
    data.inner().take(key);
  }
  if (length) {
    tokens.inner().set_text(length_key(file), file.max_length, "max_seq_len");
  } else {
    config.remark("tokenizer.max_seq_len: torchtune cuts no text without it; the recipe does");
  }
  data.end(kTuneDatasetKeys);
  tokens.end(kTuneFileKeys);
}

void read_tune_length(TrainerConfig& config) {
  const double micro = config.number("batch_size").value_or(1);
  const double steps = config.number("gradient_accumulation_steps").value_or(1);
  config.set_text("train.batch", show_number(micro * steps), "batch_size");
  config.set_text("train.micro_batch", show_number(micro), "batch_size");
  config.put("data.loader.split_batches", "false");
  config.set_text("data.loader.drop_last", "true", "drop_last");
  if (config.find("gradient_accumulation_steps")) {
    config.set_text("train.batch", show_number(micro * steps), "gradient_accumulation_steps");
  }
  if (const auto eval = config.text("batch_size_val")) {
    config.set_text("eval.batch", resolved(config, *eval), "batch_size_val");
  }
  const double epochs = config.number("epochs").value_or(1);
  const double most = config.number("max_steps_per_epoch").value_or(0);
  const Duration length = most > 0 ? Duration{epochs * most, Duration::Unit::kSteps}
                                   : Duration{epochs, Duration::Unit::kEpochs};
  config.set_text("train.until", to_string(length), most > 0 ? "max_steps_per_epoch" : "epochs");
  if (most > 0 && config.find("epochs")) {
    config.set_text("train.until", to_string(length), "epochs");
  }
  const double saved = config.number("save_every_n_epochs").value_or(1);
  config.set_text("checkpoint.every", to_string(Duration{saved, Duration::Unit::kEpochs}),
                  "save_every_n_epochs");
  if (most > 0 && epochs > 1) {
    config.remark(
        "max_steps_per_epoch: epochs are complete here; the total number of steps is equal, unless "
        "an epoch has fewer");
  }
}

void read_tune_machine(TrainerConfig& config) {
  const std::string type = config.text("dtype").value_or("");
  if (type == "bf16") {
    config.set_text("accelerator.mixed_precision", "bf16", "dtype");
    config.remark("dtype: weights have 32 bits, with autocast to bf16");
  } else if (type == "fp32") {
    config.ignore("dtype");
  }
  const std::string device = config.text("device").value_or("");
  if (device == "cpu" || device == "cuda") config.set_text("accelerator.device", device, "device");
  TuneSection logger(config, "metric_logger");
  const std::string name = component_in(config, "metric_logger");
  for (const auto& [theirs, ours] :
       {std::pair("TensorBoardLogger", "tensorboard"), std::pair("WandBLogger", "wandb"),
        std::pair("CometLogger", "comet"), std::pair("MLFlowLogger", "mlflow")}) {
    if (name != theirs) continue;
    logger.inner().set("trackers", {Node::List{scalar_node(ours)}, {}}, kComponent);
  }
  logger.end(kTuneFileKeys);
  const Node::Entry* profiler = config.find("profiler");
  const Node::Entry* enabled = profiler ? profiler->node.find("enabled") : nullptr;
  const bool on = enabled && !is_unset(enabled->node, "false");
  if (on) config.skip("profiler", "write the steps in 'profile.steps'");
  config.ignore("profiler");
}

/// The loss shows the method: cross-entropy, or that of preferences.
void read_tune_loss(TrainerConfig& config) {
  const std::string loss = component_in(config, "loss");
  if (loss.empty()) return;
  if (loss.find("CrossEntropy") != std::string::npos || loss.starts_with("CEWith")) {
    const Node::Entry& entry = *config.find("loss");
    config.ignore("loss");
    for (const Node::Entry& argument : entry.node.map() ? *entry.node.map() : Node::Map()) {
      // Of memory, and torch's defaults.
      const bool idle = argument.key == kComponent || argument.key == "num_output_chunks" ||
                        (argument.key == "ignore_index" && argument.node.scalar() &&
                         argument.node.scalar()->text == "-100");
      if (!idle) config.skip_nested("loss", argument, "the loss is the mean cross-entropy");
    }
    return;
  }
  const bool preference =
      loss.find("DPO") != std::string::npos || loss == "RSOLoss" || loss == "SimPOLoss";
  if (preference) return config.refuse_lacking("loss", "preference");
  if (loss.find("PPO") != std::string::npos || loss.find("GRPO") != std::string::npos) {
    return config.refuse_lacking("loss", "rl");
  }
  config.refuse("loss", text("the loss '{}' is not available", loss));
}

/// Keys of the recipes full_finetune_distributed and lora_finetune_distributed, which shard.
constexpr RenamedOption kTuneOptions[] = {{"fsdp_cpu_offload", "offload_params"},
                                          {"fsdp_reshard_after_forward", "reshard_after_forward"}};
constexpr RenamedOption kTuneMesh[] = {{"data_parallel_shard_dim", "dp_shard_size"},
                                       {"data_parallel_replicate_dim", "dp_replicate_size"},
                                       {"tensor_parallel_dim", "tp_size"}};

void read_torchtune(const Node& tree, Imported& out, const ProgramIndex& program) {
  TrainerConfig config(tree, out, program);
  const std::string folder = resolved(config, config.text("output_dir").value_or(""));
  const std::string name = valid_run_name(folder);
  if (!name.empty()) config.set_text("name", name, "output_dir");
  read_tune_model(config);
  read_tune_data(config);
  read_tune_optimizer(config);
  read_tune_schedule(config);
  read_tune_length(config);
  read_tune_machine(config);
  read_tune_loss(config);
  if (config.flag("enable_activation_checkpointing")) {
    config.set_text("train.activation_checkpointing", "blocks", "enable_activation_checkpointing");
  }
  read_activation_offloading(config, "enable_activation_offloading",
                             config.flag("enable_activation_checkpointing"));
  read_renamed_sharding(config, kFsdpFamily, kTuneOptions);
  read_renamed_sharding(config, kParallelismFamily, kTuneMesh);
  config.apply_table(kTorchtuneKeys);
}

}  // namespace

const TrainerFormat kTorchtune = {"torchtune", "a torchtune config", &torchtune_shown_by,
                                  &read_torchtune};

}  // namespace accel
