// Configs of Lightning's command line (LightningCLI). Model and data are Python classes.
#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/duration_texts.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/lightning_length.h"
#include "compat/trainers/lightning_strategy.h"
#include "compat/trainers/shared_readings.h"
#include "core/base/text.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

constexpr auto kClassPath = "class_path";
constexpr auto kInitArgs = "init_args";

constexpr TrainerKey kLightningKeys[] = {
    {"seed_everything", Use::kRead},
    {"trainer", Use::kRead},
    {"model", Use::kRead},
    {"data", Use::kRead},
    {"optimizer", Use::kRead},
    {"lr_scheduler", Use::kRead},
    {"ckpt_path", Use::kNot, "write a checkpoint of accel-run in 'checkpoint.resume'"},
    {"custom_modules_path", Use::kNot, import_reasons::kPython},
    {"out_of_memory", Use::kIdle},
    {"config", Use::kIdle},
    {"verbose", Use::kIdle},
    {"weights_only", Use::kIdle},
    {"deploy_config_file", Use::kIdle},
};

constexpr TrainerKey kTrainerSectionKeys[] = {
    {"accelerator", Use::kRead},
    {"strategy", Use::kRead},
    {"devices", Use::kRead},
    {"gpus", Use::kRead},
    {"num_nodes", Use::kCopy, "accelerator.num_machines", "1"},
    {"precision", Use::kRead},
    {"logger", Use::kRead},
    {"callbacks", Use::kRead},
    {"fast_dev_run", Use::kNot, "'accel-run smoke' runs a few steps", "false 0"},
    {"max_epochs", Use::kRead},
    {"min_epochs", Use::kIdle},
    {"max_steps", Use::kRead, "", "-1"},
    {"min_steps", Use::kIdle},
    {"max_time", Use::kNot, "write a time in 'train.until'"},
    {"limit_train_batches", Use::kRead},
    {"limit_val_batches", Use::kRead},
    {"limit_test_batches", Use::kIdle},
    {"limit_predict_batches", Use::kIdle},
    {"overfit_batches", Use::kNot, import_reasons::kPartOfData, "0"},
    {"val_check_interval", Use::kRead},
    {"check_val_every_n_epoch", Use::kRead},
    {"num_sanity_val_steps", Use::kIdle},
    {"log_every_n_steps", Use::kSteps, "log.every"},
    {"enable_checkpointing", Use::kRead, "", "true"},
    {"checkpoint_callback", Use::kIdle},
    {"enable_progress_bar", Use::kIdle},
    {"enable_model_summary", Use::kIdle},
    {"accumulate_grad_batches", Use::kRead},
    {"gradient_clip_val", Use::kRead, "", "0"},
    {"gradient_clip_algorithm", Use::kRead},
    {"deterministic", Use::kRead, "", "false"},
    {"benchmark", Use::kIdle},
    {"inference_mode", Use::kIdle},
    {"use_distributed_sampler", Use::kIdle},
    {"replace_sampler_ddp", Use::kIdle},
    {"profiler", Use::kNot, "write the steps in 'profile.steps'"},
    {"detect_anomaly", Use::kNot, "a non-finite loss stops a run", "false"},
    {"barebones", Use::kIdle},
    {"plugins", Use::kNot, import_reasons::kPython},
    {"sync_batchnorm", Use::kCopy, "accelerator.sync_batch_norm", "false"},
    {"reload_dataloaders_every_n_epochs", Use::kIdle},
    {"default_root_dir", Use::kRead},
    {"weights_save_path", Use::kIdle},
    {"resume_from_checkpoint", Use::kNot, "write a checkpoint of accel-run in 'checkpoint.resume'"},
    {"auto_lr_find", Use::kNot, "learning rates are compared by 'accel-run sweep'", "false"},
};

/// The section of the subcommand `fit`, by which a config may nest its keys, or the whole.
const Node& lightning_keys(const Node& tree) {
  const Node::Entry* fit = tree.find("fit");
  return fit && fit->node.map() ? fit->node : tree;
}

std::string lightning_shown_by(const Node& whole) {
  const Node& tree = lightning_keys(whole);
  const Node::Entry* trainer = tree.find("trainer");
  const bool section = trainer && trainer->node.map();
  for (const char* key : {"model", "data", "optimizer"}) {
    const Node::Entry* entry = tree.find(key);
    if (!entry) continue;
    if (entry->node.find(kClassPath)) return std::string(key) + ".class_path";
    if (section && tree.find("seed_everything")) return "trainer, seed_everything";
  }
  if (!section) return {};
  return trainer->node.find("max_epochs") || tree.find("seed_everything") ? "trainer" : "";
}

/// The class of a section, `{class_path: ..., init_args: {...}}` or a name: "AdamW".
std::string class_of(const Node& node) {
  const Node::Entry* path = node.find(kClassPath);
  const Scalar* name = path ? path->node.scalar() : node.scalar();
  return name ? name->text.substr(name->text.rfind('.') + 1) : std::string();
}

const Node& arguments_of(const Node& node) {
  static const Node kNone = {Node::Map{}, {}};
  const Node::Entry* arguments = node.find(kInitArgs);
  return arguments && arguments->node.map() ? arguments->node : kNone;
}

/// A metric of a module, "val_loss" or "val/loss", as one of evaluations.
std::string metric_of(std::string name) {
  for (const char* prefix : {"val_", "val/", "valid_", "valid/", "validation_", "validation/"}) {
    if (name.starts_with(prefix)) return "eval/" + name.substr(std::string(prefix).size());
  }
  return name;
}

void read_lightning_clipping(TrainerConfig& trainer) {
  const auto clip = trainer.text("gradient_clip_val");
  if (!clip || trainer.number("gradient_clip_val").value_or(0) <= 0) {
    return trainer.ignore("gradient_clip_algorithm");
  }
  const bool by_value = trainer.text("gradient_clip_algorithm") == "value";
  trainer.set_text(by_value ? "train.max_grad_value" : "train.max_grad_norm", *clip,
                   "gradient_clip_val");
  trainer.take("gradient_clip_algorithm");
}

void read_lightning_machine(TrainerConfig& trainer) {
  const std::string precision = trainer.text("precision").value_or("32-true");
  if (precision.starts_with("16")) {
    trainer.set_text("accelerator.mixed_precision", "fp16", "precision");
  } else if (precision.starts_with("bf16")) {
    trainer.set_text("accelerator.mixed_precision", "bf16", "precision");
  } else if (precision.starts_with("32")) {
    trainer.ignore("precision");
  } else {
    trainer.skip("precision", text("the precision '{}' is not available", precision));
  }
  const std::string device = trainer.text("accelerator").value_or("auto");
  if (device == "cpu") trainer.set_text("accelerator.device", "cpu", "accelerator");
  if (device == "gpu" || device == "cuda") {
    trainer.set_text("accelerator.device", "cuda", "accelerator");
  }
  if (device == "auto") trainer.ignore("accelerator");
  if (device == "ddp") trainer.ignore("accelerator");
  for (const char* key : {"devices", "gpus"}) {
    const Node::Entry* devices = trainer.find(key);
    if (!devices) continue;
    const Node::List* list = devices->node.list();
    const double count = list ? static_cast<double>(list->size()) : trainer.number(key).value_or(0);
    if (count >= 1) {
      trainer.set_text("accelerator.num_processes", show_number(count), key);
    } else {
      trainer.ignore(key);
    }
  }
  const std::string strategy = trainer.text("strategy").value_or("auto");
  const Node::Entry* given = trainer.find("strategy");
  const bool is_class = given && given->node.map();
  if (!is_class && (strategy == "auto" || strategy.starts_with("ddp"))) {
    trainer.ignore("strategy");
  } else {
    read_lightning_strategy(trainer, strategy);
  }
  if (const auto folder = trainer.text("default_root_dir")) {
    const std::string name = valid_run_name(*folder);
    if (!name.empty() && name != "-") trainer.set_text("name", name, "default_root_dir");
    trainer.ignore("default_root_dir");
  }
}

/// `warn` allows operators without a deterministic kernel, of which the CPU has none.
void read_deterministic(TrainerConfig& trainer) {
  const std::string value = trainer.text("deterministic").value_or("");
  if (value == "warn" || trainer.flag("deterministic")) {
    trainer.set_text("train.deterministic", "true", "deterministic");
  }
}

void read_lightning_loggers(TrainerConfig& trainer) {
  const Node::Entry* loggers = trainer.find("logger");
  if (!loggers) return;
  if (trainer.flag("logger") || trainer.text("logger") == "false" ||
      trainer.text("logger") == "False") {
    return trainer.ignore("logger");  // a run always has its record and report
  }
  const Node::List one = {loggers->node};
  Node::List trackers;
  std::vector<std::string> others;
  for (const Node& item : loggers->node.list() ? *loggers->node.list() : one) {
    const std::string name = class_of(item);
    const char* ours = name == "TensorBoardLogger" ? "tensorboard"
                       : name == "WandbLogger"     ? "wandb"
                       : name == "CSVLogger"       ? "csv"
                       : name == "MLFlowLogger"    ? "mlflow"
                       : name == "CometLogger"     ? "comet"
                                                   : nullptr;
    const Node::Entry* options = item.find("init_args");
    const Node::Entry* project = options ? options->node.find("project") : nullptr;
    if (ours && name == "WandbLogger" && project && project->node.scalar()) {
      trackers.push_back({Node::Map{{"type", {}, scalar_node(ours)},
                                    {"project", {}, escape_references(project->node)}},
                          {}});
    } else if (ours) {
      trackers.push_back(scalar_node(ours));
    } else {
      others.push_back(name);
    }
  }
  if (!trackers.empty()) trainer.set("trackers", {trackers, {}}, "logger");
  if (!others.empty()) {
    trainer.skip("logger", text("these trackers are not available: {}", quoted_list(others)));
  }
}

void read_model_checkpoint(TrainerConfig& config) {
  if (const auto metric = config.text("monitor")) {
    config.set_text("checkpoint.keep.metric", metric_of(*metric), "monitor");
    const double top = config.number("save_top_k").value_or(1);
    if (top >= 1) config.set_text("checkpoint.keep.best", show_number(top), "save_top_k");
    if (const auto mode = config.text("mode")) {
      config.set_text("checkpoint.keep.mode", *mode, "mode");
    }
  }
  const auto steps = config.number("every_n_train_steps"), epochs = config.number("every_n_epochs");
  if (steps && *steps > 0) {
    config.set_text("checkpoint.every", interval_text(*steps), "every_n_train_steps");
  } else {
    config.set_text("checkpoint.every", epochs_text(epochs.value_or(1)), "every_n_epochs");
  }
  for (const char* key : {"dirpath", "filename", "save_last", "verbose", "auto_insert_metric_name",
                          "save_top_k", "save_weights_only", "mode", "monitor"}) {
    config.ignore(key);
  }
}

void read_early_stopping(TrainerConfig& config) {
  Node::Map stop = {{"type", {}, scalar_node("early_stop")}};
  if (const auto metric = config.text("monitor")) {
    stop.push_back({"metric", {}, escape_references(scalar_node(metric_of(*metric)))});
  }
  stop.push_back({"patience", {}, scalar_node(config.text("patience").value_or("3"))});
  for (const char* key : {"min_delta", "mode"}) {
    if (const auto value = config.text(key)) stop.push_back({key, {}, scalar_node(*value)});
  }
  config.put("callbacks", "");
  config.set("callbacks", {Node::List{{std::move(stop), {}}}, {}}, "monitor");
  for (const char* key : {"patience", "min_delta", "mode"}) config.take(key);
  config.ignore("verbose");
}

void read_lightning_callbacks(TrainerConfig& trainer) {
  const Node::Entry* callbacks = trainer.find("callbacks");
  if (!callbacks || !callbacks->node.list()) return;
  constexpr std::string_view kShown =
      "LearningRateMonitor RichProgressBar TQDMProgressBar ModelSummary RichModelSummary";
  trainer.close("callbacks");
  for (const Node& item : *callbacks->node.list()) {
    const std::string name = class_of(item);
    TrainerConfig inner(arguments_of(item), trainer.out(), trainer.program(),
                        "trainer.callbacks." + name + '.');
    if (name == "ModelCheckpoint" || name == "StateDictModelCheckpoint") {
      read_model_checkpoint(inner);
      inner.apply_table({});
    } else if (name == "EarlyStopping") {
      read_early_stopping(inner);
      inner.apply_table({});
      for (const char* least : {"min_epochs", "min_steps"}) {
        if (trainer.number(least).value_or(0) > 1) {
          trainer.skip(least, "early_stop may stop at any evaluation");
        }
      }
    } else if (has_word(kShown, name)) {
      trainer.out().idle.push_back({"trainer.callbacks." + name, item.where, ""});
    } else {
      trainer.out().left.push_back(
          {"trainer.callbacks." + name, item.where, "it is a Python class"});
    }
  }
}

void read_lightning_optimizer(TrainerConfig& config) {
  const Node::Entry* section = config.find("optimizer");
  if (!section) {
    return config.miss("'optimizer': the Python class of the model configures it");
  }
  const std::string name = class_of(section->node);
  const Node& arguments =
      section->node.find(kClassPath) ? arguments_of(section->node) : section->node;
  TrainerConfig inner(arguments, config.out(), config.program(), "optimizer.");
  TrainerConfig outer(section->node, config.out(), config.program(), "optimizer.");
  read_optimizer_class(outer, kClassPath, name);
  const Node::Entry* betas = inner.find("betas");
  if (betas && betas->node.list()) inner.set("optimizer.betas", betas->node, "betas");
  inner.apply_table(optimizer_class_keys());
  set_class_decay(inner, name);
  config.close("optimizer");
}

void refuse_lightning_schedule(TrainerConfig& section, const std::string& name, bool part) {
  static constexpr std::pair<const char*, const char*> kOtherForms[] = {
      {"OneCycleLR", "one_cycle"},
      {"PolynomialLR", "polynomial"},
      {"LinearLR", "linear"},
      {"ConstantLR", "constant"}};
  for (const auto& [theirs, ours] : kOtherForms) {
    if (name != theirs) continue;
    return section.refuse(kClassPath, text("the schedule '{}' is not converted", name),
                          text("leave it out, and write the scheduler '{}' in the recipe, whose "
                               "options differ",
                               ours));
  }
  section.refuse(kClassPath,
                 part ? std::string("its period is not the length of the run")
                      : text("the schedule '{}' is not available", name),
                 "'accel-run list' shows the schedulers");
}

/// The epochs of MultiStepLR.
void read_milestones(TrainerConfig& section) {
  const Node::Entry* given = section.find("milestones");
  if (!given || !given->node.list()) return;
  Node::List milestones;
  for (const Node& epoch : *given->node.list()) {
    if (epoch.scalar()) milestones.push_back(scalar_node(epoch.scalar()->text + " epochs"));
  }
  section.set("scheduler.milestones", {std::move(milestones), {}}, "milestones");
}

/// Lightning steps most schedules once an epoch; here they change with every step.
void read_lightning_schedule(TrainerConfig& config, double max_epochs) {
  const Node::Entry* section = config.find("lr_scheduler");
  if (!section) return;
  const std::string name = class_of(section->node);
  TrainerConfig inner(arguments_of(section->node), config.out(), config.program(), "lr_scheduler.");
  TrainerConfig outer(section->node, config.out(), config.program(), "lr_scheduler.");
  const auto copy = [&](const char* key, const char* target) {
    if (const auto value = inner.text(key)) {
      inner.set_text(std::string("scheduler.") + target, *value, key);
    }
  };
  const auto epochs_of = [&](const char* key) {
    return epochs_text(inner.number(key).value_or(1));
  };
  const char* type = name == "ReduceLROnPlateau"   ? "plateau"
                     : name == "CosineAnnealingLR" ? "cosine"
                     : name == "StepLR"            ? "step"
                     : name == "ExponentialLR"     ? "exponential"
                     : name == "MultiStepLR"       ? "multistep"
                                                   : nullptr;
  const bool part = name == "CosineAnnealingLR" && max_epochs > 0 &&
                    inner.number("T_max").value_or(max_epochs) != max_epochs;
  if (!type || part) {
    refuse_lightning_schedule(outer, name, part);
    return config.close("lr_scheduler");
  }
  outer.set_text("scheduler.type", type, kClassPath);
  if (const auto metric = inner.text("monitor")) {
    inner.set_text("scheduler.metric", metric_of(*metric), "monitor");
  }
  for (const char* key : {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown",
                          "min_lr", "gamma"}) {
    copy(key, key);
  }
  if (type == std::string("plateau")) copy("eps", "eps");
  copy("eta_min", "min_lr");
  inner.take("T_max");
  if (inner.find("step_size")) {
    inner.set_text("scheduler.every", epochs_of("step_size"), "step_size");
  }
  read_milestones(inner);
  inner.ignore("verbose");
  inner.apply_table({});
  config.remark("lr_scheduler: Lightning changes the rate once an epoch, accel-run at every step");
  config.close("lr_scheduler");
}

/// The batch size of a DataModule is an argument of its class.
void read_lightning_data(TrainerConfig& config, double accumulate) {
  for (const char* key : {"model", "data"}) {
    config.miss(text("'{}': the config names a Python class", key));
    const Node::Entry* section = config.find(key);
    if (!section) continue;
    config.skip(key, text("it is a Python class: write '{}' in the recipe", key));
  }
  const Node::Entry* data = config.find("data");
  if (!data) return;
  const Node& arguments = data->node.find(kInitArgs) ? arguments_of(data->node) : data->node;
  TrainerConfig inner(arguments, config.out(), config.program(), "data.");
  const auto batch = inner.number("batch_size");
  if (batch && *batch >= 1) {
    inner.set_text("train.batch", show_number(*batch * accumulate), "batch_size");
    inner.set_text("train.micro_batch", show_number(*batch), "batch_size");
    config.put("data.loader.split_batches", "false");
  }
  if (const auto workers = inner.text("num_workers"); workers && inner.number("num_workers")) {
    inner.set_text("data.loader.workers", *workers, "num_workers");
  }
}

void read_lightning(const Node& whole, Imported& out, const ProgramIndex& program) {
  const Node& tree = lightning_keys(whole);
  TrainerConfig config(tree, out, program);
  static const Node kNoTrainer = {Node::Map{}, {}};
  const Node::Entry* section = config.find("trainer");
  const bool has_trainer = section && section->node.map();
  TrainerConfig trainer(has_trainer ? section->node : kNoTrainer, out, program, "trainer.");
  const auto seed = config.number("seed_everything");
  if (seed) config.set_text("seed", *config.text("seed_everything"), "seed_everything");
  config.ignore("seed_everything");
  read_lightning_length(trainer);
  read_lightning_clipping(trainer);
  read_lightning_machine(trainer);
  read_deterministic(trainer);
  read_lightning_loggers(trainer);
  if (trainer.text("enable_checkpointing") && !trainer.flag("enable_checkpointing")) {
    trainer.set_text("checkpoint.every", "never", "enable_checkpointing");
  } else {
    trainer.set_text("checkpoint.every", "1 epoch", "callbacks.ModelCheckpoint");
  }
  read_lightning_callbacks(trainer);
  const double accumulate = trainer.number("accumulate_grad_batches").value_or(1);
  if (const auto count = trainer.text("accumulate_grad_batches"); count && accumulate >= 1) {
    trainer.set_text("train.gradient_accumulation_steps", *count, "accumulate_grad_batches");
  }
  trainer.apply_table(kTrainerSectionKeys);
  if (has_trainer) config.close("trainer");
  read_lightning_optimizer(config);
  read_lightning_schedule(config, trainer.number("max_epochs").value_or(0));
  read_lightning_data(config, accumulate);
  config.apply_table(kLightningKeys);
}

}  // namespace

const TrainerFormat kLightning = {"lightning", "a config of Lightning's command line",
                                  &lightning_shown_by, &read_lightning};

}  // namespace accel
