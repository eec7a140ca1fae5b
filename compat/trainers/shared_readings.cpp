#include "compat/trainers/shared_readings.h"

#include <cctype>
#include <cmath>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/duration_texts.h"
#include "compat/trainers/schedule_readings.h"
#include "compat/trainers/translation.h"
#include "core/base/text.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {
namespace {

constexpr Translation kOptimizers[] = {
    {"adamw_torch", "adamw"},
    {"adamw_torch_fused", "adamw"},
    {"adamw_hf", "adamw"},
    {"paged_adamw_32bit", "adamw"},
    {"paged_adamw", "adamw"},
    {"adafactor", "adafactor"},
    {"sgd", "sgd"},
    {"rmsprop", "rmsprop"},
    {"adagrad", "adagrad"},
    {"lion_32bit", "lion"},
    {"lion_pytorch", "lion"},
    {"muon", "muon"},
    {"paged_lion_32bit", "lion"},
    {"rmsprop_bnb", "rmsprop"},
    {"rmsprop_bnb_32bit", "rmsprop"},
    {"adamw_bnb_8bit", "adamw_8bit"},
    {"adamw_8bit", "adamw_8bit"},
    {"paged_adamw_8bit", "adamw_8bit"},
    {"schedule_free_adamw", "schedule_free_adamw"},
    {"galore_adamw", "galore_adamw"},
};

/// The same update with its state in fewer bits.
constexpr Translation kShortStates[] = {
    {"adamw_torch_8bit", "adamw"}, {"adamw_torch_4bit", "adamw"},   {"lion_8bit", "lion"},
    {"paged_lion_8bit", "lion"},   {"rmsprop_bnb_8bit", "rmsprop"},
};

/// Classes of torch.optim and bitsandbytes.
constexpr Translation kOptimizerClasses[] = {
    {"AdamW", "adamw"},
    {"Adam", "adam"},
    {"SGD", "sgd"},
    {"Adagrad", "adagrad"},
    {"RMSprop", "rmsprop"},
    {"PagedAdamW", "adamw"},
    {"PagedAdamW8bit", "adamw_8bit"},
    {"AdamW8bit", "adamw_8bit"},
    {"Adafactor", "adafactor"},
    {"AdamWScheduleFree", "schedule_free_adamw"},
    {"GaLoreAdamW", "galore_adamw"},
    {"Lamb", "lamb"},
};

constexpr Translation kTrackers[] = {
    {"tensorboard", "tensorboard"}, {"wandb", "wandb"},     {"mlflow", "mlflow"},
    {"comet_ml", "comet"},          {"dvclive", "dvclive"}, {"trackio", "trackio"},
    {"clearml", "clearml"},         {"swanlab", "swanlab"},
};

constexpr TrainerKey kOptimizerClassKeys[] = {
    {"lr", TrainerKey::Use::kCopy, "optimizer.lr"},
    {"weight_decay", TrainerKey::Use::kCopy, "optimizer.weight_decay"},
    {"fused", TrainerKey::Use::kCopy, "optimizer.fused"},
    {"eps", TrainerKey::Use::kCopy, "optimizer.eps"},
    {"momentum", TrainerKey::Use::kCopy, "optimizer.momentum"},
    {"dampening", TrainerKey::Use::kCopy, "optimizer.dampening"},
    {"nesterov", TrainerKey::Use::kCopy, "optimizer.nesterov"},
    {"amsgrad", TrainerKey::Use::kCopy, "optimizer.amsgrad"},
    {"maximize", TrainerKey::Use::kCopy, "optimizer.maximize"},
    {"alpha", TrainerKey::Use::kCopy, "optimizer.alpha"},
    {"centered", TrainerKey::Use::kCopy, "optimizer.centered"},
    {"lr_decay", TrainerKey::Use::kCopy, "optimizer.lr_decay"},
    {"betas", TrainerKey::Use::kRead},
    {"foreach", TrainerKey::Use::kIdle},
    {"capturable", TrainerKey::Use::kIdle},
    {"differentiable", TrainerKey::Use::kIdle, "", "false"},
};

/// Trainer passes the betas of Adam to Lion as well, whose own defaults are others.
void read_betas(TrainerConfig& config, const std::string& type) {
  const auto first = config.text("adam_beta1"), second = config.text("adam_beta2");
  constexpr std::string_view kAdams = "adamw adamw_8bit schedule_free_adamw";
  const bool is_adam = has_word(kAdams, type);
  if (type == "lion" && !first && !second) {
    config.place("optimizer.betas", {Node::List{scalar_node("0.9"), scalar_node("0.999")}, {}});
  }
  if ((is_adam || type == "lion") && (first || second)) {
    const Node::List betas = {scalar_node(first.value_or("0.9")),
                              scalar_node(second.value_or("0.999"))};
    config.set("optimizer.betas", {betas, {}}, first ? "adam_beta1" : "adam_beta2");
    if (first && second) config.set("optimizer.betas", {betas, {}}, "adam_beta2");
  }
  if (const auto epsilon = config.text("adam_epsilon"); epsilon && is_adam) {
    config.set_text("optimizer.eps", *epsilon, "adam_epsilon");
  }
  for (const char* key : {"adam_beta1", "adam_beta2", "adam_epsilon"}) config.ignore(key);
}

void remark_paging(TrainerConfig& config, const std::string& key, const std::string& name) {
  config.remark(
      text("{}: the state of '{}' stays on the device, where CUDA would page it to the "
           "host; 'accelerator.fsdp.offload' moves it",
           key, name));
}

/// The type in the recipe; "" if the optimizer is refused.
std::string read_optimizer_name(TrainerConfig& config, const char* key, const char* fallback) {
  const std::string name = config.text(key).value_or(fallback);
  if (const char* ours = translation(kOptimizers, name)) {
    config.set_text("optimizer.type", ours, key);
    if (name.starts_with("paged_")) remark_paging(config, key, name);
    if (name == "adafactor") {
      config.remark(
          text("{}: steps of transformers' Adafactor have the size 'lr', torch's that times the "
               "root mean square of the parameter: set another 'optimizer.lr'",
               key));
    }
    return ours;
  }
  if (const char* ours = translation(kShortStates, name)) {
    config.set_text("optimizer.type", ours, key);
    config.remark(
        text("{}: '{}' stores its state in another precision, '{}' in 32 bits", key, name, ours));
    return ours;
  }
  config.refuse(key, text("the optimizer '{}' is not available", name),
                "'accel-run list' shows the optimizers");
  return {};
}

/// The options that Trainer reads from other keys: `optim_args`, "rank=64, scale=0.5", of GaLore,
/// and the warm-up of schedule-free optimizers.
void read_optimizer_arguments(TrainerConfig& config, const std::string& type) {
  if (type == "schedule_free_adamw" && config.number("warmup_steps").value_or(0) >= 1) {
    config.put("optimizer.warmup_steps", *config.text("warmup_steps"));
  }
  if (type != "galore_adamw") return;
  if (config.find("optim_target_modules")) {
    config.skip("optim_target_modules",
                "all matrices but embeddings and the head are projected: 'optimizer.exclude' names "
                "others");
  }
  std::string rest = config.text("optim_args").value_or("") + ',';
  for (size_t end = 0; (end = rest.find(',')) != rest.npos; rest.erase(0, end + 1)) {
    const std::string item = trimmed(rest.substr(0, end));
    const size_t equals = item.find('=');
    const std::string name = trimmed(item.substr(0, equals));
    if (equals == item.npos || !has_word("rank update_proj_gap scale proj_type", name)) continue;
    config.set_text("optimizer." + name, trimmed(item.substr(equals + 1)), "optim_args");
  }
}

void read_optimizer(TrainerConfig& config, const char* key, const ArgumentDefaults& defaults) {
  const std::string type = read_optimizer_name(config, key, defaults.optimizer);
  if (type.empty()) return;
  const std::string rate = config.text("learning_rate").value_or(defaults.lr);
  if (rate.empty()) {
    config.miss("'optimizer.lr': the config has no learning_rate");
  } else {
    config.set_text("optimizer.lr", rate, "learning_rate");
  }
  if (config.text(key).value_or("").starts_with("galore")) {
    for (const char* dropped : {"weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"}) {
      if (config.find(dropped)) config.skip(dropped, "Trainer does not pass it to GaLore");
    }
    config.put("optimizer.eps", "1e-06");  // of galore_torch
    return read_optimizer_arguments(config, type);
  }
  const auto decay = config.text("weight_decay");
  if (decay || type == "adamw" || type == "adamw_8bit" || type == "muon") {
    config.set_text("optimizer.weight_decay", decay.value_or("0"), "weight_decay");
  }
  if (type == "muon") {
    config.remark(
        "optim: Muons scale the learning rate by the matrix differently: see "
        "'optimizer.adjust_lr_fn'");
  }
  read_betas(config, type);
  read_optimizer_arguments(config, type);
}

/// Trainer's batch sizes are per device.
void read_batches(TrainerConfig& config, const ArgumentNames& words, double fallback) {
  const double micro = config.number(words.batch).value_or(fallback);
  const double steps = config.number("gradient_accumulation_steps").value_or(1);
  config.set_text("train.batch", show_number(micro * steps), words.batch);
  if (config.flag("auto_find_batch_size")) {
    config.set_text("train.micro_batch", "auto", "auto_find_batch_size");
  } else {
    config.set_text("train.micro_batch", show_number(micro), words.batch);
  }
  config.put("data.loader.split_batches", "false");
  if (config.find("gradient_accumulation_steps")) {
    config.set_text("train.batch", show_number(micro * steps), "gradient_accumulation_steps");
  }
  if (const auto eval = config.text(words.eval_batch)) {
    config.set_text("eval.batch", *eval, words.eval_batch);
  }
}

void read_length(TrainerConfig& config, const char* epochs, double fallback) {
  const double steps = config.number("max_steps").value_or(-1);
  if (steps > 0) {
    config.set_text("train.until", steps_text(steps), "max_steps");
    return config.ignore(epochs);
  }
  const double count = config.number(epochs).value_or(fallback);
  config.set_text("train.until", to_string(Duration{count, Duration::Unit::kEpochs}), epochs);
}

/// An interval of "steps", "epoch" or "no". `fallback` holds without a strategy and a number.
struct IntervalKeys {
  std::string strategy;
  std::string steps;
  std::string target;
  std::string fallback;
  std::string fallback_steps;  ///< for the strategy "steps" without a number
};

void read_interval(TrainerConfig& config, const IntervalKeys& keys) {
  const auto steps = config.number(keys.steps);
  const auto strategy = config.text(keys.strategy);
  const bool counts = steps && *steps > 0;
  if (strategy && *strategy != "steps" && *strategy != "epoch" && *strategy != "no") {
    config.skip(keys.strategy, text("the strategy '{}' is not available", *strategy));
  } else if (strategy && *strategy != "steps") {
    config.set_text(keys.target, *strategy == "epoch" ? "1 epoch" : "never", keys.strategy);
    config.ignore(keys.steps);
  } else if (counts) {
    config.set_text(keys.target, interval_text(*steps), keys.steps);
    if (strategy) config.set_text(keys.target, interval_text(*steps), keys.strategy);
  } else if (const std::string& length = strategy ? keys.fallback_steps : keys.fallback;
             !length.empty()) {
    config.set_text(keys.target, length, keys.strategy);
  }
}

void read_intervals(TrainerConfig& config, const ArgumentDefaults& defaults) {
  const double logging = config.number("logging_steps").value_or(0);
  const std::string log = logging > 0 ? interval_text(logging) : defaults.log;
  const bool renamed = !config.find("eval_strategy") && config.find("evaluation_strategy");
  const char* strategy = renamed ? "evaluation_strategy" : "eval_strategy";
  if (config.find(strategy) || defaults.steps_evaluate) {
    read_interval(config, {strategy, "eval_steps", "eval.every", "never", log});
  } else {
    config.set_text("eval.every", "never", strategy);
    config.ignore("eval_steps");
  }
  read_interval(config,
                {"save_strategy", "save_steps", "checkpoint.every", defaults.save, "500 steps"});
  read_interval(config,
                {"logging_strategy", "logging_steps", "log.every", defaults.log, defaults.log});
}

void read_keeping(TrainerConfig& config, const char* fallback) {
  const auto limit = config.text("save_total_limit");
  if (limit || *fallback) {
    config.set_text("checkpoint.keep.last", limit.value_or(fallback), "save_total_limit");
  } else {
    config.remark(
        "save_total_limit: Trainer keeps every checkpoint without it, and the recipe the last two: "
        "set 'checkpoint.keep.last' for more");
  }
  if (!config.flag("load_best_model_at_end")) return;
  std::string metric = config.text("metric_for_best_model").value_or("loss");
  if (metric.starts_with("eval_")) metric.erase(0, 5);
  config.set_text("checkpoint.keep.best", "1", "load_best_model_at_end");
  config.remark(
      "load_best_model_at_end: the best checkpoint is kept, and the run ends with its last "
      "weights: export the best one by its folder");
  config.set_text("checkpoint.keep.metric", "eval/" + metric, "metric_for_best_model");
  if (config.find("greater_is_better")) {
    const char* mode = config.flag("greater_is_better") ? "max" : "min";
    config.set_text("checkpoint.keep.mode", mode, "greater_is_better");
  }
}

void read_trackers(TrainerConfig& config) {
  const Node::Entry* entry = config.find("report_to");
  if (!entry) return;
  const Node::List one = {entry->node};
  Node::List trackers;
  std::vector<std::string> unknown;
  for (const Node& item : entry->node.list() ? *entry->node.list() : one) {
    const std::string name = item.scalar() ? item.scalar()->text : "";
    if (name.empty() || name == "none" || name == "all") continue;
    if (const char* ours = translation(kTrackers, name)) {
      trackers.push_back(scalar_node(ours));
    } else {
      unknown.push_back(name);
    }
  }
  if (!trackers.empty()) config.set("trackers", {trackers, {}}, "report_to");
  if (!unknown.empty())
    config.skip("report_to", text("these trackers are not available: {}", quoted_list(unknown)));
}

void read_activation_checkpointing(TrainerConfig& config, bool is_default) {
  bool recomputes = false;
  for (const char* key : {"gradient_checkpointing", "activation_checkpointing"}) {
    const std::string value = config.text(key).value_or("");
    const bool unset = value.empty() && is_default && key == std::string("gradient_checkpointing");
    const bool offloads = value.starts_with("offload");
    if (!config.flag(key) && !offloads && !unset) continue;
    config.set_text("train.activation_checkpointing", "blocks", key);
    if (offloads) config.set_text("train.activation_cpu_offload", "true", key);
    recomputes = true;
  }
  read_activation_offloading(config, "activation_offloading", recomputes);
}

/// The order of the samples.
void read_sampling(TrainerConfig& config) {
  constexpr auto kOrder = "train_sampling_strategy";
  constexpr auto kGroups = "group_by_length";
  constexpr auto kTarget = "data.loader.group_by_length";
  const std::string order = config.text(kOrder).value_or("");
  if (order == "sequential") config.set_text("data.loader.shuffle", "false", kOrder);
  if (order == kGroups) config.set_text(kTarget, "true", kOrder);
  if (config.flag(kGroups)) config.set_text(kTarget, "true", kGroups);
  constexpr auto kDrop = "dataloader_drop_last";
  if (config.flag(kDrop) && config.number("gradient_accumulation_steps").value_or(1) > 1) {
    config.skip(kDrop,
                "'data.loader.drop_last' drops the batch of a step, Trainer one of those that "
                "gradient_accumulation_steps adds up");
  }
}

/// A folder, or true for the newest checkpoint.
void read_resume(TrainerConfig& config) {
  constexpr auto kKey = "resume_from_checkpoint";
  const auto folder = config.text(kKey);
  if (!folder || ascii_lower(*folder) == "false") return;
  config.set_text("checkpoint.resume", config.flag(kKey) ? "auto" : *folder, kKey);
}

/// axolotl's "full" stands for weights of this type as well.
bool has_precision(const TrainerConfig& config, const char* key) {
  return config.flag(key) || config.text(key) == "full";
}

void read_precision(TrainerConfig& config, const ArgumentNames& words, bool is_bf16_by_default) {
  const bool fp16 = has_precision(config, words.precision_fp16);
  const bool none = !config.find(words.precision_bf16) && !fp16;
  const bool bf16 = has_precision(config, words.precision_bf16) || (none && is_bf16_by_default);
  if (!bf16 && !fp16) return;
  const char* const key = bf16 ? words.precision_bf16 : words.precision_fp16;
  config.set_text("accelerator.mixed_precision", bf16 ? "bf16" : "fp16", key);
  if (config.text(key) != "full") return;
  config.remark(text("{}: weights have 32 bits, with autocast to {}", key, bf16 ? "bf16" : "fp16"));
}

}  // namespace

void read_activation_offloading(TrainerConfig& config, const char* key, bool recomputes) {
  const std::string value = config.text(key).value_or("false");
  if (value == "false" || value == "False") return;
  if (value == "disk") config.remark(text("{}: to memory of the host, not to the disk", key));
  if (recomputes) {
    config.set_text("train.activation_cpu_offload", "true", key);
  } else {
    config.remark(text("{}: without activation checkpointing no activation is offloaded", key));
  }
}

void read_training_arguments(TrainerConfig& config, const ArgumentNames& words,
                             const ArgumentDefaults& defaults) {
  read_optimizer(config, words.optimizer, defaults);
  read_schedule(config, words.schedule, defaults.schedule, defaults.warmup);
  read_batches(config, words, defaults.batch);
  read_length(config, words.epochs, defaults.epochs);
  read_intervals(config, defaults);
  read_keeping(config, defaults.keep);
  read_trackers(config);
  read_activation_checkpointing(config, defaults.activation_checkpointing);
  read_precision(config, words, defaults.bf16);
  read_sampling(config);
  read_resume(config);
  const bool unclipped = config.is_none("max_grad_norm") && !defaults.null_is_unset;
  const std::string norm = config.text("max_grad_norm").value_or(unclipped ? "0" : "1.0");
  if (parse_number({norm}).value.value_or(0) > 0) {
    config.set_text("train.max_grad_norm", norm, "max_grad_norm");
  } else {
    config.ignore("max_grad_norm");
  }
}

void read_optimizer_class(TrainerConfig& config, const std::string& key, const std::string& name) {
  const char* ours = translation(kOptimizerClasses, name);
  if (!ours) {
    return config.refuse(key, text("the optimizer '{}' is not available", name),
                         "'accel-run list' shows the optimizers");
  }
  config.set_text("optimizer.type", ours, key);
  if (name.starts_with("Paged")) remark_paging(config, key, name);
  if (const Node::Entry* betas = config.find("betas"); betas && betas->node.list()) {
    config.set("optimizer.betas", betas->node, "betas");
  }
}

void set_class_decay(TrainerConfig& config, const std::string& name) {
  // bitsandbytes has torch's AdamW default; that of every other class is the recipe's.
  const bool is_adamw =
      name.find("AdamW") != name.npos && name != "AdamWScheduleFree" && name != "GaLoreAdamW";
  if (is_adamw && !config.has("optimizer.weight_decay")) {
    config.set_text("optimizer.weight_decay", "0.01", "weight_decay");
  }
}

void read_early_stopping(TrainerConfig& config, const char* key) {
  const auto patience = config.text(key);
  if (!patience) return;
  const Node::Map stop = {{"type", {}, scalar_node("early_stop")},
                          {"patience", {}, scalar_node(*patience)}};
  config.set("callbacks", {Node::List{{stop, {}}}, {}}, key);
}

std::span<const TrainerKey> optimizer_class_keys() {
  return kOptimizerClassKeys;
}

void refuse_label_smoothing(TrainerConfig& config, const char* key) {
  if (config.number(key).value_or(0) > 0) config.refuse_lacking(key, "label smoothing");
}

std::string valid_run_name(std::string text) {
  text = text.substr(text.find_last_of('/') + 1).substr(0, 64);
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return text == "." || text == ".." ? "" : text;
}

}  // namespace accel
