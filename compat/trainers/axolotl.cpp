// axolotl configs.
#include <algorithm>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/axolotl_datasets.h"
#include "compat/trainers/data_readings.h"
#include "compat/trainers/fp8_readings.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/preference_readings.h"
#include "compat/trainers/sharding_readings.h"
#include "compat/trainers/shared_readings.h"
#include "compat/trainers/trainer.h"
#include "core/base/text.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

constexpr auto kAxolotlTemplate =
    "write a file of the template in 'data.train.chat_template'; default: the tokenizer's";
constexpr auto kSeveralSizes = "write it in 'data.eval'";
constexpr auto kStreamed = "write a local file in 'data.train'";

constexpr auto kNoAdapter = "quantized weights are frozen, and there is no adapter";
constexpr auto kAddAdapter = "write 'adapter: qlora', or leave it out";

constexpr TrainerKey kAxolotlKeys[] = {
    {"base_model", Use::kRead},
    {"base_model_config", Use::kNot, "the model's folder has its config"},
    {"cls_model_config", Use::kNot, "the model's folder has its config"},
    {"model_type", Use::kRead},
    {"tokenizer_type", Use::kIdle},
    {"processor_type", Use::kIdle},
    {"tokenizer_config", Use::kNot, "write its folder in 'data.train.tokenizer'"},
    {"tokenizer_legacy", Use::kIdle},
    {"tokenizer_use_fast", Use::kIdle},
    {"tokenizer_use_mistral_common", Use::kNot, "the tokenizer is a tokenizer.json", "false"},
    {"trust_remote_code", Use::kNot, import_reasons::kRemoteCode, "false"},
    {"revision_of_model", Use::kNot, "download this revision of the model"},
    {"load_in_8bit", Use::kOther, "quantization", "false"},
    {"load_in_4bit", Use::kRead, "", "false"},
    {"gptq", Use::kOther, "quantization", "false"},
    {"gptq_groupsize", Use::kIdle},
    {"gptq_model_v1", Use::kIdle},
    {"gptq_disable_exllama", Use::kIdle},
    {"bnb_config_kwargs", Use::kNot, "write its values in 'model.quantization'"},
    {"model_quantization_config", Use::kOther, "quantization"},
    {"model_quantization_config_kwargs", Use::kIdle},
    {"use_onebitllms", Use::kOther, "quantization", "false"},
    {"qat", Use::kOther, "qat"},
    {"fp8", Use::kRead, "", "false"},
    {"fp8_enable_fsdp_float8_all_gather", Use::kIdle},
    {"strict", Use::kIdle},
    {"adapter", Use::kRead},
    {"lora_model_dir", Use::kCopy, "model.lora.adapter"},
    {"lora_r", Use::kIdle},
    {"lora_alpha", Use::kIdle},
    {"lora_dropout", Use::kIdle},
    {"lora_target_linear", Use::kIdle},
    {"lora_target_modules", Use::kIdle},
    {"lora_modules_to_save", Use::kIdle},
    {"lora_fan_in_fan_out", Use::kIdle},
    {"lora_target_parameters", Use::kOther, "lora of parameters"},
    {"lora_rank_pattern", Use::kOther, "lora patterns"},
    {"lora_alpha_pattern", Use::kOther, "lora patterns"},
    {"lora_mlp_kernel", Use::kIdle},
    {"lora_qkv_kernel", Use::kIdle},
    {"lora_o_kernel", Use::kIdle},
    {"peft", Use::kOther, "lora initialization"},
    {"peft_init_lora_weights", Use::kOther, "lora initialization", "true"},
    {"peft_use_dora", Use::kOther, "dora", "false"},
    {"peft_use_rslora", Use::kIdle},
    {"loraplus_lr_ratio", Use::kOther, "loraplus"},
    {"relora", Use::kOther, "relora", "false"},
    {"relora_cpu_offload", Use::kIdle},
    {"relora_prune_ratio", Use::kIdle},
    {"relora_steps", Use::kOther, "relora"},
    {"lisa_n_layers", Use::kOther, "layer freezing"},
    {"lisa_step_interval", Use::kIdle},
    {"lisa_layers_attribute", Use::kIdle},
    {"freeze_mm_modules", Use::kOther, "vision language", "false"},
    {"reinit_weights", Use::kRead, "", "false"},
    {"quantize_moe_experts", Use::kOther, "quantization", "false"},
    {"experts_implementation", Use::kIdle},
    {"use_scattermoe", Use::kIdle},
    {"use_sonicmoe", Use::kIdle},
    {"expert_parallel_size", Use::kCopy, "accelerator.parallelism.ep", "1"},
    {"llama4_linearized_experts", Use::kIdle},
    {"datasets", Use::kRead},
    {"test_datasets", Use::kRead},
    {"pretraining_dataset", Use::kNot, kStreamed},
    {"streaming", Use::kNot, kStreamed, "false"},
    {"skip_prepare_dataset", Use::kIdle},
    {"shuffle_merged_datasets", Use::kIdle},
    {"dataset_exact_deduplication", Use::kNot, "samples are not compared", "false"},
    {"curriculum_sampling", Use::kNot, "set 'data.loader.shuffle: false' for the file's order",
     "false"},
    {"chat_template", Use::kNot, kAxolotlTemplate, "tokenizer_default"},
    {"chat_template_jinja", Use::kNot, kAxolotlTemplate},
    {"train_on_inputs", Use::kIdle},
    {"special_tokens", Use::kRead},
    {"eot_tokens", Use::kIdle},
    {"added_tokens_overrides", Use::kLack, "custom tokens"},
    {"tokens", Use::kLack, "custom tokens"},
    {"resize_token_embeddings_to_32x", Use::kNot, "the sizes are those of the model's folder",
     "false"},
    {"dataset_prepared_path", Use::kIdle},
    {"dataset_processes", Use::kIdle},
    {"dataset_keep_in_memory", Use::kIdle},
    {"push_dataset_to_hub", Use::kLack, "upload"},
    {"hub_model_id", Use::kLack, "upload"},
    {"hub_strategy", Use::kIdle},
    {"hf_use_auth_token", Use::kIdle},
    {"val_set_size", Use::kRead, "", "0"},
    {"sequence_len", Use::kRead},
    {"eval_sequence_len", Use::kNot, kSeveralSizes},
    {"min_sample_len", Use::kNot, "samples of all lengths are used"},
    {"sample_packing", Use::kRead, "", "false"},
    {"eval_sample_packing", Use::kIdle},
    {"pad_to_sequence_len", Use::kIdle},
    {"sample_packing_group_size", Use::kIdle},
    {"sample_packing_bin_size", Use::kIdle},
    {"sample_packing_sequentially", Use::kIdle},
    {"pretrain_multipack_attn", Use::kIdle},
    {"max_packed_sequence_len", Use::kIdle},
    {"group_by_length", Use::kRead, "", "false"},
    {"wandb_project", Use::kRead},
    {"wandb_entity", Use::kRead},
    {"wandb_watch", Use::kNot, "write 'log.histograms' for it", "false"},
    {"wandb_name", Use::kRead},
    {"wandb_run_id", Use::kIdle},
    {"wandb_log_model", Use::kLack, "upload", "false"},
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
    {"cosine_constant_lr_ratio", Use::kNot, "write phases in 'scheduler' for it", "0"},
    {"lr_quadratic_warmup", Use::kNot, "warm-up is linear", "false"},
    {"adam_eps", Use::kRead},
    {"evals_per_epoch", Use::kRead, "", "0"},
    {"saves_per_epoch", Use::kRead, "", "0"},
    {"eval_table_size", Use::kIdle},
    {"eval_max_new_tokens", Use::kIdle},
    {"do_causal_lm_eval", Use::kIdle},
    {"eval_causal_lm_metrics", Use::kNot, "write 'eval.metrics' for it"},
    {"early_stopping_patience", Use::kRead},
    {"resume_from_checkpoint", Use::kCopy, "checkpoint.resume", "false"},
    {"auto_resume_from_checkpoints", Use::kIdle},
    {"attn_implementation", Use::kIdle},
    {"flash_attention", Use::kIdle},
    {"sdp_attention", Use::kIdle},
    {"xformers_attention", Use::kIdle},
    {"s2_attention", Use::kNot, "attention covers the whole context", "false"},
    {"flash_attn_cross_entropy", Use::kIdle},
    {"flash_attn_rms_norm", Use::kIdle},
    {"flash_attn_fuse_mlp", Use::kIdle},
    {"flash_attn_fuse_qkv", Use::kIdle},
    {"flex_attn_compile_kwargs", Use::kIdle},
    {"liger_rope", Use::kIdle},
    {"liger_rms_norm", Use::kIdle},
    {"liger_glu_activation", Use::kIdle},
    {"liger_layer_norm", Use::kIdle},
    {"liger_fused_linear_cross_entropy", Use::kIdle},
    {"cut_cross_entropy", Use::kIdle},
    {"tiled_mlp", Use::kIdle},
    {"use_kernels", Use::kIdle},
    {"fused_attn_kernel", Use::kIdle},
    {"activation_offloading", Use::kRead, "", "false"},
    {"tensor_parallel_size", Use::kRead},
    {"context_parallel_size", Use::kRead},
    {"dp_shard_size", Use::kRead},
    {"dp_replicate_size", Use::kRead},
    {"device_map", Use::kIdle},
    {"low_cpu_mem_usage", Use::kIdle},
    {"torchdistx_path", Use::kIdle},
    {"loss_watchdog_threshold", Use::kNot, "a non-finite loss stops a run"},
    {"loss_watchdog_patience", Use::kIdle},
    {"fsdp_version", Use::kIdle},
    {"plugins", Use::kRead},
    {"rl", Use::kRead},
    {"rl_beta", Use::kIdle},
    {"kto_desirable_weight", Use::kRead},
    {"kto_undesirable_weight", Use::kRead},
    {"orpo_alpha", Use::kIdle},
    {"rpo_alpha", Use::kIdle},
    {"cpo_alpha", Use::kIdle},
    {"simpo_gamma", Use::kIdle},
    {"dpo_label_smoothing", Use::kIdle},
    {"precompute_ref_log_probs", Use::kIdle},
    {"dpo_use_weighting", Use::kOther, "preference", "false"},
    {"dpo_use_logits_to_keep", Use::kIdle},
    {"dpo_padding_free", Use::kIdle},
    {"reward_model", Use::kOther, "preference", "false"},
    {"process_reward_model", Use::kOther, "preference", "false"},
    {"center_rewards_coefficient", Use::kIdle},
    {"num_labels", Use::kNot, "write 'model.num_classes' for a classifier"},
    {"diffusion", Use::kOther, "other loss"},
    {"use_eaft", Use::kOther, "other loss", "false"},
    {"use_swanlab", Use::kNot, "write a tracker of type swanlab", "false"},
    {"swanlab_project", Use::kIdle},
    {"swanlab_experiment_name", Use::kIdle},
    {"swanlab_description", Use::kIdle},
    {"swanlab_mode", Use::kIdle},
    {"ebft", Use::kOther, "rl"},
    {"trl", Use::kNot, "write its options in 'task', such as 'task.beta'"},
    {"vllm", Use::kIdle},
    {"jagged_restart_steps", Use::kOther, "relora"},
    {"jagged_restart_warmup_steps", Use::kIdle},
    {"jagged_restart_anneal_steps", Use::kIdle},
    {"llmcompressor", Use::kOther, "quantization"},
    {"model_config", Use::kNot, "the model's folder has its config"},
    {"full_finetune", Use::kIdle},
    {"eaft_alpha", Use::kIdle},
    {"eaft_k", Use::kIdle},
    {"eta_min", Use::kNot, "write 'scheduler.min_lr'"},
    {"flash_optimum", Use::kIdle},
    {"liger_rms_norm_gated", Use::kIdle},
    {"is_llama_derived_model", Use::kIdle},
    {"is_mistral_derived_model", Use::kIdle},
    {"is_qwen_derived_model", Use::kIdle},
    {"torch_dtype", Use::kIdle},
    {"float16", Use::kRead, "", "false"},
    {"bfloat16", Use::kRead, "", "false"},
    {"use_ray", Use::kNot, import_reasons::kPython, "false"},
    {"ray_num_workers", Use::kNot, import_reasons::kPython},
};

/// Plugins that compute the same numbers with other kernels.
constexpr const char* kKernelPlugins[] = {"cut_cross_entropy", "liger", "kernels"};

std::string axolotl_shown_by(const Node& tree) {
  return tree.find("base_model") ? "base_model" : "";
}

std::optional<PreferenceMethod> axolotl_preference(const TrainerConfig& config) {
  return preference_method(ascii_lower(config.text("rl").value_or("")));
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
      config.refuse_lacking("rl", preference ? "preference" : "rl");
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
  if (const auto patience = config.text("early_stopping_patience")) {
    const Node::Map stop = {{"type", {}, scalar_node("early_stop")},
                            {"patience", {}, scalar_node(*patience)}};
    config.set("callbacks", {Node::List{{stop, {}}}, {}}, "early_stopping_patience");
  }
  const char* name_key = config.find("wandb_name") ? "wandb_name" : "output_dir";
  const std::string name = valid_run_name(config.text(name_key).value_or(""));
  if (!name.empty()) config.set_text("name", name, name_key);
  config.ignore("output_dir");
  if (config.flag("group_by_length")) {
    config.set_text("data.loader.group_by_length", "true", "group_by_length");
  }
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
                           .bf16 = true});
  if (!config.find("warmup_steps") && !config.find("warmup_ratio")) {
    config.remark("warmup_steps: without it, axolotl warms up for 3 %, and at most 100 steps");
  }
  read_axolotl_evaluation(config);
  read_axolotl_trackers(config);
  read_axolotl_rest(config);
  read_renamed_sharding(config, kParallelismFamily, kAxolotlMesh);
  read_trainer_sharding(config);
  read_axolotl_fp8(config);
  refuse_label_smoothing(config, "label_smoothing_factor");
  std::vector<TrainerKey> keys(std::begin(kAxolotlKeys), std::end(kAxolotlKeys));
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.apply_table(keys);
}

}  // namespace

const TrainerFormat kAxolotl = {"axolotl", "an axolotl config", &axolotl_shown_by, &read_axolotl};

}  // namespace accel
