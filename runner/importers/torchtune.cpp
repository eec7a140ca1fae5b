// torchtune's YAML, whose sections name Python components by `_component_`.
#include "core/scalar.h"
#include "core/units.h"
#include "runner/importers/import_recipe.h"
#include "runner/importers/shared_readings.h"

namespace accel {
namespace {

using Use = ForeignKey::Use;
namespace reasons = import_reasons;

constexpr auto kComponent = "_component_";

constexpr ForeignKey kTorchtuneKeys[] = {
    {"output_dir", Use::kRead},
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
    {"batch_size_val", Use::kCopy, "eval.batch"},
    {"gradient_accumulation_steps", Use::kRead},
    {"epochs", Use::kRead},
    {"max_steps_per_epoch", Use::kRead},
    {"seed", Use::kCopy, "seed"},
    {"shuffle", Use::kCopy, "data.loader.shuffle"},
    {"resume_from_checkpoint", Use::kIdle},
    {"save_adapter_weights_only", Use::kIdle},
    {"run_val_every_n_steps", Use::kSteps, "eval.every"},
    {"save_every_n_steps", Use::kSteps, "checkpoint.every"},
    {"clip_grad_norm", Use::kCopy, "train.max_grad_norm"},
    {"optimizer_in_bwd", Use::kNot, "gradients are summed before the optimizer's step", "false"},
    {"compile", Use::kNot, reasons::kCompile, "false"},
    {"device", Use::kRead},
    {"dtype", Use::kRead},
    {"enable_activation_checkpointing", Use::kNot, reasons::kRecompute, "false"},
    {"enable_activation_offloading", Use::kNot, reasons::kRecompute, "false"},
    {"custom_sharded_layers", Use::kNot, reasons::kSharding},
    {"fsdp_cpu_offload", Use::kNot, reasons::kSharding, "false"},
    {"fsdp_reshard_after_forward", Use::kIdle},
    {"tensor_parallel_dim", Use::kNot, reasons::kSharding, "1"},
    {"tensor_parallel_plan", Use::kNot, reasons::kSharding},
    {"data_parallel_replicate_dim", Use::kNot, reasons::kSharding, "1 -1"},
    {"data_parallel_shard_dim", Use::kNot, reasons::kSharding, "1 -1"},
    {"log_every_n_steps", Use::kSteps, "log.every"},
    {"log_level", Use::kIdle},
    {"log_peak_memory_stats", Use::kCopy, "log.system"},
    {"profiler", Use::kRead},
};

constexpr ForeignKey kOptimizerKeys[] = {
    {kComponent, Use::kRead},
    {"lr", Use::kCopy, "optimizer.lr"},
    {"weight_decay", Use::kCopy, "optimizer.weight_decay"},
    {"fused", Use::kCopy, "optimizer.fused"},
    {"eps", Use::kCopy, "optimizer.eps"},
    {"momentum", Use::kCopy, "optimizer.momentum"},
    {"betas", Use::kRead},
    {"foreach", Use::kIdle},
};

constexpr ForeignKey kSchedulerKeys[] = {
    {kComponent, Use::kRead},
    {"num_warmup_steps", Use::kSteps, "scheduler.warmup"},
    {"num_cycles", Use::kCopy, "scheduler.cycles"},
};

constexpr ForeignKey kFileKeys[] = {
    {kComponent, Use::kRead},
    {"checkpoint_dir", Use::kRead},
    {"checkpoint_files", Use::kIdle},
    {"model_type", Use::kIdle},
    {"output_dir", Use::kIdle},
    {"recipe_checkpoint", Use::kNot, "give a run's own checkpoint as 'checkpoint.resume'"},
    {"adapter_checkpoint", Use::kNot, reasons::kAdapters},
    {"safe_serialization", Use::kIdle},
    {"path", Use::kIdle},
    {"max_seq_len", Use::kRead},
    {"source", Use::kRead},
    {"data_files", Use::kRead},
    {"column", Use::kRead},
    {"split", Use::kIdle},
    {"packed", Use::kIdle},
    {"log_dir", Use::kIdle},
    {"project", Use::kNot, "write it in the tracker's options"},
};

bool is_torchtune(const Node& tree) {
  for (const Node::Entry& entry : *tree.map()) {
    if (entry.node.find(kComponent)) return true;
  }
  return false;
}

/// What a section's `_component_` ends with: "AdamW" of torch.optim.AdamW.
std::string component_in(const ForeignConfig& config, const std::string& key) {
  const Node::Entry* section = config.find(key);
  const Node::Entry* name = section ? section->node.find(kComponent) : nullptr;
  if (!name || !name->node.scalar()) return {};
  const std::string& path = name->node.scalar()->text;
  return path.substr(path.rfind('.') + 1);
}

/// Reads a section by a table of its own, and takes the key that it is of.
class TuneSection {
 public:
  TuneSection(ForeignConfig& outer, const std::string& key, Imported& out)
      : outer_(outer),
        key_(key),
        section_(outer.find(key)),
        inner_(section_ ? section_->node : kNone, out, key + '.') {}

  ForeignConfig& inner() { return inner_; }
  void end(std::span<const ForeignKey> keys) {
    if (!section_) return;
    inner_.take(kComponent);
    inner_.settle(keys);
    outer_.take(key_);
  }

 private:
  static inline const Node kNone = {Node::Map{}, {}};
  ForeignConfig& outer_;
  std::string key_;
  const Node::Entry* section_;
  ForeignConfig inner_;
};

void read_tune_optimizer(ForeignConfig& config, Imported& out) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"AdamW", "adamw"},     {"Adam", "adam"},       {"SGD", "sgd"},
      {"Adagrad", "adagrad"}, {"RMSprop", "rmsprop"}, {"PagedAdamW8bit", "adamw"},
      {"AdamW8bit", "adamw"}};
  TuneSection section(config, "optimizer", out);
  const std::string name = component_in(config, "optimizer");
  const char* ours = nullptr;
  for (const auto& [theirs, type] : kNames) {
    if (name == theirs) ours = type;
  }
  section.inner().set_text("optimizer.type", ours ? ours : "adamw", kComponent);
  if (!ours) {
    section.inner().leave(kComponent, "there is no optimizer '" + name + "': the recipe has adamw");
  } else if (name.ends_with("8bit")) {
    section.inner().leave(kComponent, "'" + name + "' keeps its state in 8 bits; here it is 32");
  }
  if (const Node::Entry* betas = section.inner().find("betas"); betas && betas->node.list()) {
    section.inner().set("optimizer.betas", betas->node, "betas");
  }
  section.end(kOptimizerKeys);
  if (name == "AdamW" || name == "SGD") return;
  if (name.starts_with("Adam") && !config.has("optimizer.weight_decay") && ours) {
    config.set_text("optimizer.weight_decay", name == "Adam" ? "0" : "0.01", "optimizer");
  }
}

void read_tune_schedule(ForeignConfig& config, Imported& out) {
  TuneSection section(config, "lr_scheduler", out);
  const std::string name = component_in(config, "lr_scheduler");
  if (name == "get_cosine_schedule_with_warmup") {
    section.inner().set_text("scheduler.type", "cosine", kComponent);
  } else if (!name.empty()) {
    section.inner().leave(kComponent, "there is no schedule '" + name + "'");
  }
  section.end(kSchedulerKeys);
}

/// `${output_dir}` and its like stand for other keys at the top.
std::string resolved(const ForeignConfig& config, std::string text) {
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

void read_tune_model(ForeignConfig& config, Imported& out) {
  TuneSection files(config, "checkpointer", out);
  const std::string model = component_in(config, "model");
  const auto folder = files.inner().text("checkpoint_dir");
  if (folder) {
    files.inner().set_text("vars.model", resolved(config, *folder), "checkpoint_dir");
    config.set_text("model.type", "auto", "model");
    config.set("model.weights", scalar_node("${vars.model}"), "model");
  }
  if (model.find("lora") != std::string::npos) {
    config.leave("model", std::string(model) + ": " + import_reasons::kAdapters);
  } else if (!folder) {
    config.leave("model", "no 'checkpointer' says where its weights are: the recipe has none");
  }
  files.end(kFileKeys);
}

void read_tune_data(ForeignConfig& config, Imported& out) {
  TuneSection data(config, "dataset", out), tokens(config, "tokenizer", out);
  const std::string name = component_in(config, "dataset");
  const auto file = data.inner().text("data_files");
  if (name == "text_completion_dataset" && file && is_text_file(*file)) {
    TextFile texts{resolved(config, *file), data.inner().text("column").value_or("text"),
                   tokens.inner().text("max_seq_len").value_or("2048"), 0};
    set_text_data(config, texts, "dataset");
    for (const char* key : {"data_files", "column", "source"}) data.inner().take(key);
    tokens.inner().take("max_seq_len");
  } else if (!name.empty()) {
    config.leave("dataset", name + ": " + import_reasons::kConversations);
    return tokens.end(kFileKeys);
  }
  data.end(kFileKeys);
  tokens.end(kFileKeys);
}

void read_tune_length(ForeignConfig& config) {
  const double micro = config.number("batch_size").value_or(1);
  const double steps = config.number("gradient_accumulation_steps").value_or(1);
  config.set_text("train.batch", show_number(micro * steps), "batch_size");
  config.set_text("train.micro_batch", show_number(micro), "batch_size");
  config.set_text("data.loader.split_batches", "false", "batch_size");
  config.take("gradient_accumulation_steps");
  const double epochs = config.number("epochs").value_or(1);
  const double most = config.number("max_steps_per_epoch").value_or(0);
  const Duration length = most > 0 ? Duration{epochs * most, Duration::Unit::kSteps}
                                   : Duration{epochs, Duration::Unit::kEpochs};
  config.set_text("train.until", to_string(length), most > 0 ? "max_steps_per_epoch" : "epochs");
  config.take("epochs");
  config.set_text("checkpoint.every", "1 epoch", "epochs");
  if (most > 0 && epochs > 1) {
    config.remark("max_steps_per_epoch: an epoch is whole here, the steps together are as many");
  }
}

void read_tune_machine(ForeignConfig& config, Imported& out) {
  const std::string type = config.text("dtype").value_or("");
  if (type == "bf16") {
    config.set_text("accelerator.mixed_precision", "bf16", "dtype");
    config.remark("dtype: weights stay in 32 bits, and autocast computes in bf16");
  } else if (type == "fp32") {
    config.take("dtype");
  }
  const std::string device = config.text("device").value_or("");
  if (device == "cpu") config.set_text("accelerator.device", "cpu", "device");
  if (device == "cuda") config.leave("device", "the recipe takes the device that is there");
  TuneSection logger(config, "metric_logger", out);
  const std::string name = component_in(config, "metric_logger");
  if (name == "TensorBoardLogger" || name == "WandBLogger") {
    const Node::List trackers = {scalar_node(name == "WandBLogger" ? "wandb" : "tensorboard")};
    logger.inner().set("trackers", {trackers, {}}, kComponent);
  } else if (name == "CometLogger") {
    logger.inner().set("trackers", {Node::List{scalar_node("comet")}, {}}, kComponent);
  }
  logger.end(kFileKeys);
  const Node::Entry* profiler = config.find("profiler");
  const Node::Entry* enabled = profiler ? profiler->node.find("enabled") : nullptr;
  const bool on = enabled && !asks_nothing(enabled->node, "false");
  if (on) config.leave("profiler", "metrics.jsonl has the times of each step");
  if (profiler && !on) config.take("profiler");
  const std::string loss = component_in(config, "loss");
  if (loss.find("CrossEntropy") != std::string::npos) {
    config.take("loss");
  } else if (!loss.empty()) {
    config.leave("loss", "the task is causal_lm, whose loss is cross-entropy, not '" + loss + "'");
  }
}

void read_torchtune(const Node& tree, Imported& out) {
  ForeignConfig config(tree, out);
  const std::string name = run_name_of(config.text("output_dir").value_or(""));
  if (!name.empty()) config.set_text("name", name, "output_dir");
  read_tune_model(config, out);
  read_tune_data(config, out);
  read_tune_optimizer(config, out);
  read_tune_schedule(config, out);
  read_tune_length(config);
  read_tune_machine(config, out);
  config.settle(kTorchtuneKeys);
}

}  // namespace

const ImportPeer kTorchtune = {"torchtune", "a torchtune config", &is_torchtune, &read_torchtune};

}  // namespace accel
