// axolotl configs.
#include <algorithm>
#include <cmath>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/axolotl_datasets.h"
#include "compat/trainers/axolotl_keys.h"
#include "compat/trainers/data_readings.h"
#include "compat/trainers/decay_readings.h"
#include "compat/trainers/fp8_readings.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/preference_readings.h"
#include "compat/trainers/sharding_readings.h"
#include "compat/trainers/shared_readings.h"
#include "compat/trainers/trainer.h"
#include "core/base/text.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {
namespace {

constexpr auto kNoAdapter = "quantized weights are frozen, and there is no adapter";
constexpr auto kAddAdapter = "write 'adapter: qlora', or leave it out";

/// Plugins that compute the same numbers with other kernels.
constexpr const char* kKernelPlugins[] = {"cut_cross_entropy", "liger", "kernels"};

std::string axolotl_shown_by(const Node& tree) {
  return tree.find("base_model") ? "base_model" : "";
}

/// The key of the method: of dpo, its single loss.
const char* axolotl_method_key(const TrainerConfig& config) {
  const bool has_loss = config.text("rl") == "dpo" && config.find("dpo_loss_type");
  return has_loss ? "dpo_loss_type" : "rl";
}

std::optional<PreferenceMethod> axolotl_preference(const TrainerConfig& config) {
  const Node::Entry* entry = config.find(axolotl_method_key(config));
  const Node::List* list = entry ? entry->node.list() : nullptr;
  const Node* word = list && list->size() == 1 ? &list->front() : entry ? &entry->node : nullptr;
  return preference_method(word && word->scalar() ? ascii_lower(word->scalar()->text) : "");
}

void read_axolotl_preference(TrainerConfig& config, const PreferenceMethod& method) {
  const char* const beta =
      !config.find("rl_beta") && config.find("orpo_alpha") ? "orpo_alpha" : "rl_beta";
  read_preference_task(config, method,
                       {.beta = beta,
                        .label_smoothing = "dpo_label_smoothing",
                        .sft_weight = method.task == "simpo" ? "cpo_alpha" : "rpo_alpha",
                        .default_simpo_sft_weight = 1,
                        .desirable_weight = "kto_desirable_weight",
                        .undesirable_weight = "kto_undesirable_weight"},
                       "rl");
}

/// Whether the config trains in a way that the recipe can keep.
void check_axolotl_method(TrainerConfig& config) {
  const std::string rl = config.text("rl").value_or("");
  if (!rl.empty()) {
    const bool preference = has_word("dpo ipo kto orpo simpo", ascii_lower(rl));
    if (!axolotl_preference(config)) {
      config.refuse_lacking(axolotl_method_key(config), preference ? "preference" : "rl");
    }
  }
  const std::string model = config.text("model_type").value_or("");
  if (model.ends_with("ForSequenceClassification")) {
    config.refuse("model_type", "it trains a classifier of texts on axolotl's prompts",
                  "write a recipe with 'data.train' of type jsonl and the task classification");
  } else if (model.ends_with("ForConditionalGeneration")) {
    config.refuse_lacking("model_type", "vision language");
  }
  config.ignore("model_type");
  if (config.find("unfrozen_parameters")) {
    config.refuse("unfrozen_parameters", "it trains a part of the parameters",
                  "write patterns of the other parameters in 'train.freeze'");
  }
  if (config.flag("reinit_weights")) {
    config.refuse("reinit_weights", "it starts from random weights",
                  "write the sizes of the model without 'model.weights'");
  }
  const Node::Entry* plugins = config.find("plugins");
  if (!plugins || !plugins->node.list()) return;
  for (const Node& item : *plugins->node.list()) {
    const std::string name = item.scalar() ? item.scalar()->text : "";
    const auto is_kernel = [&](const char* kernel) {
      return name.find(std::string(".") + kernel + '.') != name.npos;
    };
    if (std::none_of(std::begin(kKernelPlugins), std::end(kKernelPlugins), is_kernel)) {
      return config.refuse("plugins", text("the plugin '{}' changes the training", name));
    }
  }
  config.ignore("plugins");
}

/// `lora_target_linear` adapts all linear layers but the head, whichever of them are listed too.
void take_listed_layers(TrainerConfig& config) {
  constexpr auto kKey = "lora_target_modules";
  const Node::Entry* listed = config.find(kKey);
  const Node::List* names = listed ? listed->node.list() : nullptr;
  const bool others = names && std::any_of(names->begin(), names->end(), [](const Node& item) {
                        return item.scalar() && (item.scalar()->text.ends_with("lm_head") ||
                                                 item.scalar()->text.ends_with("embed_tokens"));
                      });
  if (!others) return config.take(kKey);
  config.refuse(kKey, "it has other layers than those of 'lora_target_linear'",
                "list all layers' names, without 'lora_target_linear'");
}

void read_axolotl_adapter(TrainerConfig& config, const std::string& type) {
  const std::string adapter = config.text("adapter").value_or("");
  const bool in_4bit = config.flag("load_in_4bit");
  if (adapter.empty()) {
    if (in_4bit) config.refuse("load_in_4bit", kNoAdapter, kAddAdapter);
    return;
  }
  if (adapter != "lora" && adapter != "qlora") return config.refuse_lacking("adapter", "adapter");
  if (adapter == "qlora" && !in_4bit) {
    return config.refuse("adapter", "qlora is an adapter of 4-bit weights",
                         "write 'load_in_4bit: true', or 'adapter: lora'");
  }
  if (adapter == "lora" && in_4bit) {
    // Its types and scales are those of transformers' defaults, which are not axolotl's of qlora.
    return config.refuse("load_in_4bit", "'adapter: lora' has no settings of 4-bit weights",
                         "write 'adapter: qlora', whose weights are nf4 with double quantization");
  }
  config.take("adapter");
  if (in_4bit) {
    config.take("load_in_4bit");
    set_quantization(config, {.type = "nf4", .double_quant = true, .key = "load_in_4bit"});
  }
  const bool linear = config.flag("lora_target_linear");
  if (linear) take_listed_layers(config);
  read_lora(config,
            {.rank = "lora_r",
             .alpha = "lora_alpha",
             .dropout = "lora_dropout",
             .targets = linear ? "" : "lora_target_modules",
             .saved = "lora_modules_to_save",
             .rslora = "peft_use_rslora",
             .dora = "peft_use_dora",
             .init = "peft_init_lora_weights",
             .all_by_default = linear,
             .regex = true},
            type);
  config.ignore("lora_target_linear");
}

/// A number of times per epoch as an interval.
void read_share(TrainerConfig& config, const char* key, const std::string& target) {
  const auto count = config.number(key);
  if (!count || *count <= 0) return;
  const double share = 1 / *count;
  config.set_text(target, to_string(Duration{share, Duration::Unit::kEpochs}), key);
}

/// `batch_size` instead of the accumulated steps.
void read_axolotl_batch(TrainerConfig& config) {
  const double batch = config.number("batch_size").value_or(0);
  if (batch <= 0 || config.find("gradient_accumulation_steps")) return;
  const double micro = config.number("micro_batch_size").value_or(1);
  config.set_text("train.batch", show_number(std::floor(batch / micro) * micro), "batch_size");
}

void read_axolotl_trackers(TrainerConfig& config) {
  Node::List trackers;
  const bool wandb = config.find("wandb_project") || config.flag("use_wandb");
  if (wandb) {
    Node::Map map = {{"type", {}, scalar_node("wandb")}};
    for (const auto& [theirs, ours] :
         {std::pair("wandb_project", "project"), std::pair("wandb_entity", "entity")}) {
      if (const auto value = config.text(theirs)) {
        map.push_back({ours, {}, escape_references(scalar_node(*value, true))});
      }
    }
    trackers.push_back({std::move(map), {}});
  }
  if (config.flag("use_tensorboard")) trackers.push_back(scalar_node("tensorboard"));
  if (trackers.empty()) return;
  for (const char* key : {"wandb_project", "use_wandb", "wandb_entity", "use_tensorboard"}) {
    if (config.find(key)) config.set("trackers", {trackers, {}}, key);
  }
}

/// axolotl evaluates when it has something to evaluate on, first before the training.
void read_axolotl_evaluation(TrainerConfig& config) {
  const bool held = config.number("val_set_size").value_or(0) > 0 || config.find("test_datasets");
  read_share(config, "saves_per_epoch", "checkpoint.every");
  if (!held) {
    if (config.find("evals_per_epoch")) {
      config.set_text("eval.every", "never", "val_set_size");
      config.ignore("evals_per_epoch");
    }
    return;
  }
  read_share(config, "evals_per_epoch", "eval.every");
  const bool evaluates =
      config.find("evals_per_epoch") || config.find("eval_steps") || config.find("eval_strategy");
  if (evaluates) config.set_text("eval.at_start", "true", "eval_on_start");
}

void read_axolotl_rest(TrainerConfig& config) {
  if (const auto least = config.text("cosine_min_lr_ratio")) {
    if (config.text("lr_scheduler").value_or("cosine") != "cosine") {
      config.ignore("cosine_min_lr_ratio");
    } else if (config.number("cosine_min_lr_ratio").value_or(0) < 1) {
      config.set_text("scheduler.to", *least, "cosine_min_lr_ratio");
    } else {
      config.set_text("scheduler.type", "constant", "cosine_min_lr_ratio");
    }
  }
  if (const auto epsilon = config.text("adam_eps")) {
    config.set_text("optimizer.eps", *epsilon, "adam_eps");
  }
  read_early_stopping(config, "early_stopping_patience");
  const char* name_key = config.find("wandb_name") ? "wandb_name" : "output_dir";
  const std::string name = valid_run_name(config.text(name_key).value_or(""));
  if (!name.empty()) config.set_text("name", name, name_key);
  config.ignore("output_dir");
  const Node::Entry* tokens = config.find("special_tokens");
  if (!tokens || !tokens->node.map()) return;
  config.close("special_tokens");
  for (const Node::Entry& entry : *tokens->node.map()) {
    const bool pads = entry.key == "pad_token";  // targets at padding are excluded
    if (!pads) {
      config.skip_nested("special_tokens", entry, lack_of("custom tokens", config.program()));
    } else {
      config.out().idle.push_back({"special_tokens.pad_token", entry.where, ""});
    }
  }
}

constexpr RenamedOption kAxolotlMesh[] = {{"dp_shard_size", "dp_shard_size"},
                                          {"dp_replicate_size", "dp_replicate_size"},
                                          {"tensor_parallel_size", "tp_size"},
                                          {"context_parallel_size", "cp_size"}};

void read_axolotl(const Node& tree, Imported& out, const ProgramIndex& program) {
  TrainerConfig config(tree, out, program);
  check_axolotl_method(config);
  const std::string type = read_model_folder(config, "base_model");
  read_axolotl_adapter(config, type);
  if (!config.find("datasets")) config.skip("datasets", "it names no data: the recipe has none");
  read_axolotl_datasets(config, "datasets", "data.train");
  read_axolotl_datasets(config, "test_datasets", "data.eval");
  read_axolotl_shuffle(config);
  if (const auto method = axolotl_preference(config)) read_axolotl_preference(config, *method);
  if (!config.has("data.train")) {
    for (const char* key : {"sequence_len", "sample_packing", "train_on_inputs"}) {
      if (config.flag(key) || config.number(key)) config.skip(key, "write it in 'data.train'");
    }
    if (config.number("val_set_size").value_or(0) > 0) {
      config.skip("val_set_size", "write a dataset of held-out samples in 'data.eval'");
    }
    config.miss("'data': the recipe has none");
  }
  read_training_arguments(config,
                          {.optimizer = "optimizer",
                           .schedule = "lr_scheduler",
                           .batch = "micro_batch_size",
                           .eval_batch = "eval_batch_size",
                           .epochs = "num_epochs",
                           .precision_bf16 = config.flag("bfloat16") ? "bfloat16" : "bf16",
                           .precision_fp16 = config.flag("float16") ? "float16" : "fp16"},
                          {.lr = "",
                           .schedule = "cosine",
                           .warmup = "3%",
                           .batch = 1,
                           .epochs = 1,
                           .log = "",
                           .save = "1 epoch",
                           .keep = "4",
                           .steps_evaluate = true,
                           .bf16 = true,
                           .null_is_unset = true});
  if (!config.find("warmup_steps") && !config.find("warmup_ratio")) {
    config.remark("warmup_steps: without it, axolotl warms up for 3 %, and at most 100 steps");
  }
  read_decay_exclusions(config, type, config.text("base_model").value_or(""));
  read_axolotl_batch(config);
  read_ddp_timeout(config);
  read_axolotl_evaluation(config);
  read_axolotl_trackers(config);
  read_axolotl_rest(config);
  read_renamed_sharding(config, kParallelismFamily, kAxolotlMesh);
  read_trainer_sharding(config);
  read_axolotl_fp8(config);
  refuse_label_smoothing(config, "label_smoothing_factor");
  std::vector<TrainerKey> keys(axolotl_keys().begin(), axolotl_keys().end());
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.apply_table(keys);
}

}  // namespace

const TrainerFormat kAxolotl = {"axolotl", "an axolotl config", &axolotl_shown_by, &read_axolotl};

}  // namespace accel
