// axolotl's YAML.
#include <algorithm>

#include "core/interpolate.h"
#include "core/scalar.h"
#include "runner/importers/import_recipe.h"
#include "runner/importers/shared_readings.h"
#include "runner/importers/trainer_keys.h"

namespace accel {
namespace {

using Use = ForeignKey::Use;
namespace reasons = import_reasons;

constexpr ForeignKey kAxolotlKeys[] = {
    {"base_model", Use::kRead},
    {"base_model_config", Use::kNot, "the model's folder says what it is"},
    {"model_type", Use::kIdle},
    {"tokenizer_type", Use::kIdle},
    {"tokenizer_config", Use::kNot, "write the folder as 'data.train.tokenizer'"},
    {"trust_remote_code", Use::kNot, "no code of a model's folder is run", "false"},
    {"load_in_8bit", Use::kNot, reasons::kQuantized, "false"},
    {"load_in_4bit", Use::kNot, reasons::kQuantized, "false"},
    {"gptq", Use::kNot, reasons::kQuantized, "false"},
    {"strict", Use::kIdle},
    {"adapter", Use::kNot, reasons::kAdapters},
    {"lora_model_dir", Use::kNot, reasons::kAdapters},
    {"lora_r", Use::kNot, reasons::kAdapters},
    {"lora_alpha", Use::kNot, reasons::kAdapters},
    {"lora_dropout", Use::kNot, reasons::kAdapters},
    {"lora_target_linear", Use::kNot, reasons::kAdapters, "false"},
    {"lora_target_modules", Use::kNot, reasons::kAdapters},
    {"lora_modules_to_save", Use::kNot, reasons::kAdapters},
    {"lora_fan_in_fan_out", Use::kNot, reasons::kAdapters, "false"},
    {"lora_mlp_kernel", Use::kNot, reasons::kAdapters, "false"},
    {"lora_qkv_kernel", Use::kNot, reasons::kAdapters, "false"},
    {"lora_o_kernel", Use::kNot, reasons::kAdapters, "false"},
    {"peft_use_dora", Use::kNot, reasons::kAdapters, "false"},
    {"unfrozen_parameters", Use::kNot, "all weights are trained"},
    {"datasets", Use::kRead},
    {"test_datasets", Use::kRead},
    {"pretraining_dataset", Use::kNot, "data is read from files, not streamed"},
    {"shuffle_merged_datasets", Use::kCopy, "data.loader.shuffle"},
    {"chat_template", Use::kNot, reasons::kConversations},
    {"chat_template_jinja", Use::kNot, reasons::kConversations},
    {"train_on_inputs", Use::kNot, reasons::kConversations, "false"},
    {"special_tokens", Use::kNot, "tokens are those of the tokenizer's files"},
    {"added_tokens_overrides", Use::kNot, "tokens are those of the tokenizer's files"},
    {"tokens", Use::kNot, "tokens are those of the tokenizer's files"},
    {"resize_token_embeddings_to_32x", Use::kNot, "sizes are the folder's", "false"},
    {"dataset_prepared_path", Use::kIdle},
    {"dataset_processes", Use::kIdle},
    {"dataset_keep_in_memory", Use::kIdle},
    {"push_dataset_to_hub", Use::kNot, reasons::kHub},
    {"hub_model_id", Use::kNot, reasons::kHub},
    {"hub_strategy", Use::kIdle},
    {"hf_use_auth_token", Use::kIdle},
    {"val_set_size", Use::kRead, "", "0"},
    {"sequence_len", Use::kRead},
    {"eval_sequence_len", Use::kNot, "evaluation sees the same length as training"},
    {"sample_packing", Use::kRead, "", "false"},
    {"eval_sample_packing", Use::kIdle},
    {"pad_to_sequence_len", Use::kIdle},
    {"sample_packing_group_size", Use::kIdle},
    {"sample_packing_bin_size", Use::kIdle},
    {"group_by_length", Use::kNot, "'data.loader.group_by_length: true' does it for jsonl and chat",
     "false"},
    {"wandb_project", Use::kRead},
    {"wandb_entity", Use::kNot, "an offline run is sent by 'wandb sync', which asks"},
    {"wandb_watch", Use::kNot, "write 'log.histograms' for it"},
    {"wandb_name", Use::kRead},
    {"wandb_run_id", Use::kIdle},
    {"wandb_log_model", Use::kNot, reasons::kHub, "false"},
    {"wandb_mode", Use::kIdle},
    {"mlflow_tracking_uri", Use::kNot, "write a tracker of type mlflow with this 'uri'"},
    {"mlflow_experiment_name", Use::kNot, "write a tracker of type mlflow"},
    {"comet_project_name", Use::kNot, "write a tracker of type comet"},
    {"use_tensorboard", Use::kRead, "", "false"},
    {"use_wandb", Use::kRead, "", "false"},
    {"output_dir", Use::kRead},
    {"micro_batch_size", Use::kRead},
    {"eval_batch_size", Use::kRead},
    {"batch_size", Use::kNot, "it follows from micro_batch_size and gradient_accumulation_steps"},
    {"num_epochs", Use::kRead},
    {"optimizer", Use::kRead},
    {"lr_scheduler", Use::kRead},
    {"cosine_min_lr_ratio", Use::kRead},
    {"cosine_constant_lr_ratio", Use::kNot, "write phases in 'scheduler' for it"},
    {"loraplus_lr_ratio", Use::kNot, reasons::kAdapters},
    {"evals_per_epoch", Use::kRead},
    {"saves_per_epoch", Use::kRead},
    {"eval_table_size", Use::kIdle},
    {"eval_max_new_tokens", Use::kIdle},
    {"eval_causal_lm_metrics", Use::kNot, "write 'eval.metrics' for it"},
    {"early_stopping_patience", Use::kRead},
    {"resume_from_checkpoint", Use::kCopy, "checkpoint.resume", "false"},
    {"auto_resume_from_checkpoints", Use::kIdle},
    {"flash_attention", Use::kIdle},
    {"sdp_attention", Use::kIdle},
    {"xformers_attention", Use::kIdle},
    {"s2_attention", Use::kNot, "attention sees the whole context", "false"},
    {"flash_attn_cross_entropy", Use::kIdle},
    {"flash_attn_rms_norm", Use::kIdle},
    {"flash_attn_fuse_mlp", Use::kIdle},
    {"loss_watchdog_threshold", Use::kNot, "a loss that is not finite stops a run anyway"},
    {"loss_watchdog_patience", Use::kIdle},
    {"fsdp_version", Use::kIdle},
    {"plugins", Use::kNot, reasons::kPython},
    {"rl", Use::kNot, reasons::kPreference},
    {"reward_model", Use::kNot, reasons::kPreference, "false"},
    {"is_llama_derived_model", Use::kIdle},
    {"is_mistral_derived_model", Use::kIdle},
    {"is_qwen_derived_model", Use::kIdle},
};

bool is_axolotl(const Node& tree) {
  return tree.find("base_model") != nullptr;
}

/// A file of plain texts that takes all of it; other datasets are left.
void read_axolotl_data(ForeignConfig& config) {
  const Node::Entry* datasets = config.find("datasets");
  if (!datasets) return config.leave("datasets", "no data is named: the recipe has none");
  const Node::List* list = datasets->node.list();
  const Node* first = list && list->size() == 1 ? &list->front() : nullptr;
  const auto word = [&](const char* key) {
    const Node::Entry* entry = first ? first->find(key) : nullptr;
    return entry && entry->node.scalar() ? entry->node.scalar()->text : std::string();
  };
  if (!first) return config.leave("datasets", "there are several: write a list in 'data.train'");
  if (word("type") != "completion") return config.leave("datasets", reasons::kConversations);
  const std::string path = word("path");
  if (!is_text_file(path)) {
    return config.leave("datasets", "'" + path + "' is no file of texts: download it first");
  }
  TextFile file{path, word("field").empty() ? "text" : word("field"),
                config.text("sequence_len").value_or("2048"), 0};
  const double held = config.number("val_set_size").value_or(0);
  if (held >= 1) config.leave("val_set_size", "it counts samples: write a share of the file");
  if (held > 0 && held < 1) file.held_out = held;
  set_text_data(config, file, "datasets");
  for (const Node::Entry& entry : *first->map()) {
    const bool read = entry.key == "path" || entry.key == "type" || entry.key == "field";
    const bool usual = entry.key == "ds_type" || entry.key == "split";
    if (!read && !usual)
      config.leave_inside("datasets", entry, "only path, type and field are read");
  }
  if (file.held_out > 0) config.take("val_set_size");
  config.take("sequence_len");
  if (!config.truth("sample_packing")) {
    config.remark("sample_packing: texts are put one behind another, as with sample_packing: true");
  }
  config.take("sample_packing");
}

/// So many times an epoch.
void read_share(ForeignConfig& config, const char* key, const std::string& target) {
  const auto count = config.number(key);
  if (!count || *count <= 0) return;
  const double share = 1 / *count;
  config.set_text(target, to_string(Duration{share, Duration::Unit::kEpochs}), key);
}

void read_axolotl_trackers(ForeignConfig& config) {
  Node::List trackers;
  if (config.find("wandb_project") || config.truth("use_wandb")) {
    Node::Map wandb = {{"type", {}, scalar_node("wandb")}};
    if (const auto project = config.text("wandb_project")) {
      wandb.push_back({"project", {}, escape_references(scalar_node(*project, true))});
    }
    trackers.push_back({std::move(wandb), {}});
  }
  if (config.truth("use_tensorboard")) trackers.push_back(scalar_node("tensorboard"));
  const char* key = config.find("wandb_project") ? "wandb_project" : "use_tensorboard";
  if (!trackers.empty()) config.set("trackers", {std::move(trackers), {}}, key);
  for (const char* used : {"use_wandb", "use_tensorboard"}) config.take(used);
}

void read_axolotl(const Node& tree, Imported& out) {
  ForeignConfig config(tree, out);
  read_model_folder(config, "base_model");
  read_axolotl_data(config);
  read_trainer_words(config, {.optimizer = "optimizer",
                              .schedule = "lr_scheduler",
                              .batch = "micro_batch_size",
                              .eval_batch = "eval_batch_size",
                              .epochs = "num_epochs"});
  read_share(config, "evals_per_epoch", "eval.every");
  read_share(config, "saves_per_epoch", "checkpoint.every");
  read_axolotl_trackers(config);
  if (const auto least = config.text("cosine_min_lr_ratio")) {
    config.set_text("scheduler.to", *least, "cosine_min_lr_ratio");
  }
  if (const auto patience = config.text("early_stopping_patience")) {
    const Node::Map stop = {{"type", {}, scalar_node("early_stop")},
                            {"patience", {}, scalar_node(*patience)}};
    config.set("callbacks", {Node::List{{stop, {}}}, {}}, "early_stopping_patience");
  }
  const char* name_key = config.find("wandb_name") ? "wandb_name" : "output_dir";
  const std::string name = run_name_of(config.text(name_key).value_or(""));
  if (!name.empty()) config.set_text("name", name, name_key);
  config.take("output_dir");
  std::vector<ForeignKey> keys(std::begin(kAxolotlKeys), std::end(kAxolotlKeys));
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.settle(keys);
}

}  // namespace

const ImportPeer kAxolotl = {"axolotl", "an axolotl config", &is_axolotl, &read_axolotl};

}  // namespace accel
