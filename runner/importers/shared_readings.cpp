#include "runner/importers/shared_readings.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/interpolate.h"
#include "core/scalar.h"
#include "core/units.h"

namespace accel {
namespace {

struct Translation {
  const char* theirs;
  const char* ours;
};

constexpr Translation kOptimizers[] = {
    {"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"},
    {"adamw_hf", "adamw"},    {"adafactor", "adafactor"},
    {"sgd", "sgd"},           {"rmsprop", "rmsprop"},
    {"adagrad", "adagrad"},   {"lion_32bit", "lion"},
    {"muon", "muon"},
};

constexpr Translation kSchedules[] = {
    {"linear", "linear"},         {"cosine", "cosine"},
    {"constant", "constant"},     {"constant_with_warmup", "constant"},
    {"polynomial", "polynomial"}, {"inverse_sqrt", "inverse_sqrt"},
};

constexpr Translation kTrackers[] = {
    {"tensorboard", "tensorboard"}, {"wandb", "wandb"},     {"mlflow", "mlflow"},
    {"comet_ml", "comet"},          {"dvclive", "dvclive"}, {"trackio", "trackio"},
    {"clearml", "clearml"},         {"swanlab", "swanlab"},
};

template <size_t N>
const char* translated(const Translation (&table)[N], const std::string& word) {
  for (const Translation& row : table) {
    if (word == row.theirs) return row.ours;
  }
  return nullptr;
}

std::string steps_text(double steps) {
  return to_string(Duration{steps, Duration::Unit::kSteps});
}

/// So many steps, or a share of the run where it is less than one.
std::string rhythm(double value) {
  if (value > 0 && value < 1) return show_number(value * 100) + '%';
  return steps_text(std::floor(value));
}

/// Trainer hands its Adam's decay rates to Lion as well.
void read_averages(ForeignConfig& config, const std::string& type) {
  const auto first = config.text("adam_beta1"), second = config.text("adam_beta2");
  if ((type == "adamw" || type == "lion") && (first || second)) {
    const Node::List betas = {scalar_node(first.value_or("0.9")),
                              scalar_node(second.value_or("0.999"))};
    config.set("optimizer.betas", {betas, {}}, first ? "adam_beta1" : "adam_beta2");
    config.take("adam_beta2");
  }
  if (const auto epsilon = config.text("adam_epsilon"); epsilon && type == "adamw") {
    config.set_text("optimizer.eps", *epsilon, "adam_epsilon");
  }
  for (const char* key : {"adam_beta1", "adam_beta2", "adam_epsilon"}) config.ignore(key);
}

void read_optimizer(ForeignConfig& config, const char* key) {
  const std::string name = config.text(key).value_or("adamw_torch");
  const char* ours = translated(kOptimizers, name);
  if (ours) {
    config.set_text("optimizer.type", ours, key);
  } else if (name.find("adamw") != std::string::npos) {
    config.set_text("optimizer.type", "adamw", key);
    config.leave(key, "'" + name + "' is adamw with its state in another form; here it is 32 bits");
  } else {
    config.leave(key, "there is no optimizer '" + name + "': the recipe has adamw");
    config.set_text("optimizer.type", "adamw", key);
  }
  config.set_text("optimizer.lr", config.text("learning_rate").value_or("5e-05"), "learning_rate");
  const std::string type = ours ? ours : "adamw";
  if (const auto decay = config.text("weight_decay")) {
    config.set_text("optimizer.weight_decay", *decay, "weight_decay");
    if (config.number("weight_decay").value_or(0) > 0) {
      config.remark(
          "weight_decay: Trainer spares biases and norms, the recipe does not: "
          "optimizer.groups can");
    }
  } else if (type == "adamw") {
    config.set_text("optimizer.weight_decay", "0", "weight_decay");
  }
  read_averages(config, type);
}

void read_schedule(ForeignConfig& config, const char* key) {
  const std::string name = config.text(key).value_or("linear");
  const char* ours = translated(kSchedules, name);
  if (!ours) config.leave(key, "there is no schedule '" + name + "': the recipe has a linear one");
  config.set_text("scheduler.type", ours ? ours : "linear", key);
  for (const char* warmup : {"warmup_ratio", "warmup_steps"}) {  // the second wins
    const auto value = config.number(warmup);
    if (value && *value > 0) config.set_text("scheduler.warmup", rhythm(*value), warmup);
  }
}

/// Trainer counts batches for each device.
void read_batches(ForeignConfig& config, const TrainerWords& words) {
  const double micro = config.number(words.batch).value_or(8);
  const double steps = config.number("gradient_accumulation_steps").value_or(1);
  config.set_text("train.batch", show_number(micro * steps), words.batch);
  config.set_text("train.micro_batch", show_number(micro), words.batch);
  config.set_text("data.loader.split_batches", "false", words.batch);
  config.take("gradient_accumulation_steps");
  if (const auto eval = config.text(words.eval_batch)) {
    config.set_text("eval.batch", *eval, words.eval_batch);
  }
}

void read_length(ForeignConfig& config, const char* epochs) {
  const double steps = config.number("max_steps").value_or(-1);
  if (steps > 0) {
    config.set_text("train.until", steps_text(steps), "max_steps");
    config.take(epochs);
    return;
  }
  const double count = config.number(epochs).value_or(3);
  config.set_text("train.until", to_string(Duration{count, Duration::Unit::kEpochs}), epochs);
}

/// "steps" with a number, "epoch" or "no".
void read_rhythm(ForeignConfig& config, const std::string& what, const std::string& target,
                 double fallback) {
  const std::string strategy_key = what + "_strategy", steps_key = what + "_steps";
  const auto steps = config.number(steps_key);
  const bool usual = steps || what != "eval";
  const std::string strategy = config.text(strategy_key).value_or(usual ? "steps" : "no");
  if (strategy == "epoch") {
    config.set_text(target, "1 epoch", strategy_key);
    config.take(steps_key);
  } else if (strategy == "no") {
    config.set_text(target, "never", strategy_key);
    config.take(steps_key);
  } else if (strategy == "steps") {
    config.set_text(target, rhythm(steps.value_or(fallback)), steps ? steps_key : strategy_key);
    config.take(strategy_key);
  } else {
    config.leave(strategy_key, "there is no rhythm '" + strategy + "'");
  }
}

void read_keeping(ForeignConfig& config) {
  if (const auto limit = config.text("save_total_limit")) {
    config.set_text("checkpoint.keep.last", *limit, "save_total_limit");
  }
  if (!config.truth("load_best_model_at_end")) return;
  std::string metric = config.text("metric_for_best_model").value_or("loss");
  if (metric.starts_with("eval_")) metric.erase(0, 5);
  config.set_text("checkpoint.keep.best", "1", "load_best_model_at_end");
  config.set_text("checkpoint.keep.by", "eval/" + metric, "metric_for_best_model");
  if (const auto greater = config.text("greater_is_better")) {
    const char* mode = config.truth("greater_is_better") ? "max" : "min";
    config.set_text("checkpoint.keep.mode", mode, "greater_is_better");
  }
}

void read_trackers(ForeignConfig& config) {
  const Node::Entry* entry = config.find("report_to");
  if (!entry) return;
  const Node::List one = {entry->node};
  Node::List trackers;
  std::string unknown;
  for (const Node& item : entry->node.list() ? *entry->node.list() : one) {
    const std::string name = item.scalar() ? item.scalar()->text : "";
    if (name.empty() || name == "none") continue;
    if (const char* ours = translated(kTrackers, name)) {
      trackers.push_back(scalar_node(ours));
    } else {
      unknown.append(unknown.empty() ? "'" : ", '").append(name).append("'");
    }
  }
  if (!trackers.empty()) config.set("trackers", {trackers, {}}, "report_to");
  if (!unknown.empty()) config.leave("report_to", "there is no tracker " + unknown);
}

}  // namespace

void read_trainer_words(ForeignConfig& config, const TrainerWords& words) {
  read_optimizer(config, words.optimizer);
  read_schedule(config, words.schedule);
  read_batches(config, words);
  read_length(config, words.epochs);
  read_rhythm(config, "eval", "eval.every", config.number("logging_steps").value_or(500));
  read_rhythm(config, "save", "checkpoint.every", 500);
  read_rhythm(config, "logging", "log.every", 500);
  read_keeping(config);
  read_trackers(config);
  if (config.truth(words.precision_bf16)) {
    config.set_text("accelerator.mixed_precision", "bf16", words.precision_bf16);
  } else if (config.truth(words.precision_fp16)) {
    config.set_text("accelerator.mixed_precision", "fp16", words.precision_fp16);
  }
  const std::string norm = config.text("max_grad_norm").value_or("1.0");
  if (parse_number({norm}).value.value_or(0) > 0) {
    config.set_text("train.max_grad_norm", norm, "max_grad_norm");
  } else {
    config.take("max_grad_norm");
  }
}

void read_model_folder(ForeignConfig& config, const std::string& key) {
  const std::optional<std::string> name = config.text(key);
  if (!name) {
    config.leave(key, "no model is named: the recipe has none");
    return;
  }
  const bool folder = name->starts_with('.') || name->starts_with('/');
  config.set_text("vars.model", folder ? *name : "./" + *name, key);
  config.set_text("model.type", "auto", key);
  config.set("model.weights", scalar_node("${vars.model}"), key);
  if (!folder) {
    config.remark("vars.model: the folder that '" + *name + "' is downloaded to");
  }
}

bool is_text_file(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".json") || path.ends_with(".txt");
}

void set_text_data(ForeignConfig& config, const TextFile& file, const std::string& key) {
  const auto part = [&](double from, double to) {
    Node::Map map = {{"type", {}, scalar_node("text")},
                     {"path", {}, escape_references(scalar_node(file.path, true))}};
    if (!file.path.ends_with(".txt")) {
      map.push_back({"json_field", {}, scalar_node(file.field, true)});
    }
    map.push_back({"level", {}, scalar_node("tokens")});
    map.push_back({"tokenizer", {}, scalar_node("${vars.model}")});
    map.push_back({"context", {}, scalar_node(file.context)});
    if (from > 0) map.push_back({"from", {}, scalar_node(show_number(from))});
    if (to < 1) map.push_back({"to", {}, scalar_node(show_number(to))});
    return Node{std::move(map), {}};
  };
  const double border = 1 - file.held_out;
  config.set("data.train", part(0, border), key);
  if (file.held_out > 0) config.set("data.eval", part(border, 1), key);
  config.set_text("task", "causal_lm", key);
}

std::string run_name_of(std::string text) {
  text = text.substr(text.find_last_of('/') + 1).substr(0, 64);
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return text == "." || text == ".." ? "" : text;
}

}  // namespace accel
