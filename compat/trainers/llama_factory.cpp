// LLaMA-Factory configs.
#include "compat/trainers/data_readings.h"
#include "compat/trainers/decay_readings.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/preference_readings.h"
#include "compat/trainers/sharding_readings.h"
#include "compat/trainers/shared_readings.h"
#include "compat/trainers/trainer.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

constexpr auto kRegistered = "it is an entry of dataset_info.json: write its file in 'data.eval'";
constexpr auto kListWeights = "a list in 'data.train' has weights";

constexpr TrainerKey kLlamaFactoryKeys[] = {
    {"model_name_or_path", Use::kRead},
    {"adapter_name_or_path", Use::kCopy, "model.lora.adapter"},
    {"cache_dir", Use::kIdle},
    {"trust_remote_code", Use::kIdle},
    {"use_fast_tokenizer", Use::kIdle},
    {"hf_hub_token", Use::kIdle},
    {"ms_hub_token", Use::kIdle},
    {"resize_vocab", Use::kNot, "the sizes are those of the model's folder", "false"},
    {"add_tokens", Use::kLack, "custom tokens"},
    {"new_special_tokens_config", Use::kLack, "custom tokens"},
    {"init_special_tokens", Use::kIdle},
    {"flash_attn", Use::kIdle},
    {"shift_attn", Use::kNot, "attention covers the whole context", "false"},
    {"rope_scaling", Use::kNot, "write 'model.rope' for it"},
    {"mixture_of_depths", Use::kOther, "mixture of depths"},
    {"moe_aux_loss_coef", Use::kCopy, "model.router_aux_loss_coef"},
    {"use_unsloth", Use::kIdle},
    {"use_unsloth_gc", Use::kIdle},
    {"enable_liger_kernel", Use::kIdle},
    {"use_v1_kernels", Use::kIdle},
    {"use_kt", Use::kLack, "ktransformers", "false"},
    {"kt_cpu_activation", Use::kIdle},
    {"kt_weight_path", Use::kOther, "quantization"},
    {"kt_non_expert_weight_path", Use::kIdle},
    {"quantization_bit", Use::kRead},
    {"quantization_method", Use::kIdle},
    {"quantization_type", Use::kIdle},
    {"double_quantization", Use::kIdle},
    {"upcast_layernorm", Use::kIdle},
    {"fp8", Use::kLack, "fp8", "false"},
    {"fp8_backend", Use::kIdle},
    {"fp8_enable_fsdp_float8_all_gather", Use::kIdle},
    {"disable_gradient_checkpointing", Use::kRead, "", "false"},
    {"use_reentrant_gc", Use::kIdle},
    {"train_from_scratch", Use::kRead, "", "false"},
    {"image_max_pixels", Use::kIdle},
    {"image_min_pixels", Use::kIdle},
    {"video_max_pixels", Use::kIdle},
    {"video_fps", Use::kIdle},
    {"video_maxlen", Use::kIdle},
    {"freeze_vision_tower", Use::kIdle},
    {"freeze_multi_modal_projector", Use::kIdle},
    {"freeze_language_model", Use::kOther, "vision language", "false"},
    {"stage", Use::kRead},
    {"finetuning_type", Use::kRead},
    {"lora_rank", Use::kIdle},
    {"lora_alpha", Use::kIdle},
    {"lora_dropout", Use::kIdle},
    {"lora_target", Use::kIdle},
    {"loraplus_lr_ratio", Use::kOther, "loraplus"},
    {"use_dora", Use::kIdle},
    {"use_rslora", Use::kIdle},
    {"pissa_init", Use::kIdle},
    {"pissa_iter", Use::kIdle},
    {"pissa_convert", Use::kIdle},
    {"additional_target", Use::kIdle},
    {"create_new_adapter", Use::kNot, "one adapter is trained", "false"},
    {"oft_block_size", Use::kIdle},
    {"oft_rank", Use::kIdle},
    {"oft_target", Use::kIdle},
    {"freeze_trainable_layers", Use::kIdle},
    {"freeze_trainable_modules", Use::kIdle},
    {"use_llama_pro", Use::kOther, "layer freezing", "false"},
    {"pref_beta", Use::kIdle},
    {"pref_loss", Use::kIdle},
    {"pref_ftx", Use::kIdle},
    {"simpo_gamma", Use::kIdle},
    {"kto_chosen_weight", Use::kIdle},
    {"kto_rejected_weight", Use::kIdle},
    {"dpo_label_smoothing", Use::kIdle},
    {"ref_model", Use::kOther, "preference"},
    {"ref_model_adapters", Use::kOther, "preference"},
    {"pref_bco_weight", Use::kOther, "preference", "0"},
    {"ld_alpha", Use::kOther, "preference"},
    {"reward_model", Use::kOther, "preference"},
    {"use_galore", Use::kRead, "", "false"},
    {"galore_update_interval", Use::kIdle},
    {"galore_proj_type", Use::kIdle},
    {"galore_layerwise", Use::kIdle},
    {"galore_rank", Use::kIdle},
    {"galore_scale", Use::kIdle},
    {"galore_target", Use::kIdle},
    {"use_apollo", Use::kOther, "gradient projection", "false"},
    {"apollo_layerwise", Use::kIdle},
    {"apollo_rank", Use::kIdle},
    {"apollo_scale", Use::kIdle},
    {"apollo_scale_type", Use::kIdle},
    {"apollo_target", Use::kIdle},
    {"use_badam", Use::kOther, "gradient projection", "false"},
    {"badam_mode", Use::kIdle},
    {"badam_switch_interval", Use::kIdle},
    {"badam_switch_mode", Use::kIdle},
    {"badam_verbose", Use::kIdle},
    {"use_adam_mini", Use::kRead, "", "false"},
    {"use_muon", Use::kRead, "", "false"},
    {"use_dft_loss", Use::kOther, "other loss", "false"},
    {"use_asft_loss", Use::kOther, "other loss", "false"},
    {"asft_alpha", Use::kIdle},
    {"use_eaft_loss", Use::kOther, "other loss", "false"},
    {"eaft_alpha", Use::kIdle},
    {"pure_bf16", Use::kRead, "", "false"},
    {"early_stopping_steps", Use::kRead},
    {"compute_accuracy", Use::kRead, "", "false"},
    {"disable_shuffling", Use::kRead, "", "false"},
    {"plot_loss", Use::kIdle},
    {"dataset", Use::kRead},
    {"eval_dataset", Use::kNot, kRegistered},
    {"dataset_dir", Use::kIdle},
    {"template", Use::kRead},
    {"default_system", Use::kNot, "write it as the first message of each conversation"},
    {"train_on_prompt", Use::kIdle},
    {"mask_history", Use::kIdle},
    {"enable_thinking", Use::kNot, "write 'chat_template_kwargs' in the file's lines", "true"},
    {"cutoff_len", Use::kRead},
    {"max_samples", Use::kRead},
    {"val_size", Use::kRead, "", "0"},
    {"streaming", Use::kNot, "write a local file in 'data.train'", "false"},
    {"mix_strategy", Use::kNot, kListWeights, "concat"},
    {"interleave_probs", Use::kNot, kListWeights},
    {"packing", Use::kRead, "", "false true"},
    {"neat_packing", Use::kRead, "", "false"},
    {"overwrite_cache", Use::kIdle},
    {"preprocessing_num_workers", Use::kIdle},
    {"preprocessing_batch_size", Use::kIdle},
    {"tokenized_path", Use::kNot,
     "the dataset is tokenized again: LLaMA-Factory trains on this folder if it exists"},
    {"ignore_pad_token_for_loss", Use::kNot, "padding is never a target", "true"},
    {"use_swanlab", Use::kNot, "write a tracker of type swanlab", "false"},
    {"swanlab_project", Use::kIdle},
    {"swanlab_run_name", Use::kIdle},
    {"ray_num_workers", Use::kNot, import_reasons::kPython},
    {"ray_storage_path", Use::kIdle},
    {"resources_per_worker", Use::kIdle},
    {"placement_strategy", Use::kIdle},
    {"tensor_model_parallel_size", Use::kRead},
    {"pipeline_model_parallel_size", Use::kRead},
    {"context_parallel_size", Use::kRead},
    {"sequence_parallel", Use::kRead},
    {"expert_model_parallel_size", Use::kCopy, "accelerator.parallelism.ep", "1"},
    {"moe_grouped_gemm", Use::kIdle},
    {"moe_token_dispatcher_type", Use::kIdle},
    {"use_distributed_optimizer", Use::kIdle},
    {"bias_activation_fusion", Use::kIdle},
    {"apply_rope_fusion", Use::kIdle},
    {"overlap_param_gather", Use::kIdle},
    {"overlap_grad_reduce", Use::kIdle},
    {"recompute_granularity", Use::kIdle},
    {"predict_with_generate", Use::kNot, "write the callback 'generate' for it", "false"},
    {"generation_max_length", Use::kIdle},
    {"max_new_tokens", Use::kIdle},
};

/// A key that only configs of LLaMA-Factory's version 1 have, or "".
std::string version_1_key(const Node& tree) {
  const Node::Entry* model = tree.find("model");
  if (!model || !model->node.scalar()) return {};
  for (const char* key : {"dist_config", "kernel_config", "init_config", "quant_config",
                          "peft_config", "train_dataset"}) {
    if (tree.find(key)) return key;
  }
  return {};
}

std::string llama_factory_shown_by(const Node& tree) {
  if (const std::string key = version_1_key(tree); !key.empty()) return "model, " + key;
  if (!tree.find("model_name_or_path")) return {};
  for (const char* key : {"stage", "finetuning_type"}) {
    if (tree.find(key)) return std::string("model_name_or_path, ") + key;
  }
  return {};
}

/// The method of the stages dpo, kto and rm; none for other losses of the first.
std::optional<PreferenceMethod> llama_factory_preference(const TrainerConfig& config) {
  const std::string stage = config.text("stage").value_or("");
  if (stage == "kto") return preference_method("kto");
  if (stage == "rm") return preference_method("reward");
  if (stage != "dpo") return std::nullopt;
  return preference_method(config.text("pref_loss").value_or("sigmoid"));
}

void read_llama_factory_preference(TrainerConfig& config, const PreferenceMethod& method) {
  read_preference_task(config, method,
                       {.beta = "pref_beta",
                        .label_smoothing = "dpo_label_smoothing",
                        .sft_weight = "pref_ftx",
                        .desirable_weight = "kto_chosen_weight",
                        .undesirable_weight = "kto_rejected_weight"},
                       "pref_loss");
  if (method.task == "kto" && config.number("pref_ftx").value_or(0) > 0) {
    config.skip("pref_ftx", "the task 'kto' has no cross-entropy on desirable answers");
  }
  if (method.task == "reward") {
    config.remark(
        "stage: the value head of LLaMA-Factory has a bias and dropout; the head of the "
        "recipe is a linear layer 'score' without, as transformers'");
  }
  if (method.task == "orpo") {
    if (config.number("pref_ftx").value_or(0) > 0) {
      config.skip("pref_ftx", "the weight of the cross-entropy is 1 in the task 'orpo'");
    }
    config.remark("pref_loss: the cross-entropy of orpo covers the prompt too, as in TRL");
  }
}

/// bitsandbytes' 4 bits; in 8 it quantizes the layers' inputs too, which accel-run does not.
void read_llama_factory_quantization(TrainerConfig& config, bool has_adapter) {
  constexpr auto kBits = "quantization_bit";
  if (!config.find(kBits)) return;
  if (!has_adapter) {
    return config.refuse(kBits, "quantized weights are frozen, and there is no adapter",
                         "write 'finetuning_type: lora', or leave it out");
  }
  const std::string method = config.text("quantization_method").value_or("bnb");
  if (config.text(kBits) != "4" || (method != "bnb" && method != "bitsandbytes")) {
    return config.refuse_lacking(kBits, "quantization");
  }
  config.take(kBits);
  const bool is_double = !config.find("double_quantization") || config.flag("double_quantization");
  set_quantization(config, {.type = config.text("quantization_type").value_or("nf4"),
                            .double_quant = is_double,
                            .key = kBits,
                            .type_key = "quantization_type"});
}

void read_stage(TrainerConfig& config, const std::string& model_type) {
  const std::string stage = config.text("stage").value_or("sft");
  if (stage == "pt" || stage == "sft" || llama_factory_preference(config)) {
    config.take("stage");
  } else {
    config.refuse_lacking("stage", stage == "ppo" ? "rl" : "preference");
  }
  const std::string type = config.text("finetuning_type").value_or("lora");
  if (type == "freeze") {
    return config.refuse("finetuning_type", "it trains some layers only",
                         "write 'finetuning_type: full', and 'train.freeze' in the recipe");
  }
  if (type != "full" && type != "lora") {
    return config.refuse_lacking("finetuning_type", "adapter");
  }
  config.take("finetuning_type");
  read_llama_factory_quantization(config, type == "lora");
  if (type == "full") return;
  read_lora(config,
            {.rank = "lora_rank",
             .alpha = "lora_alpha",
             .dropout = "lora_dropout",
             .targets = "lora_target",
             .saved = "additional_target",
             .rslora = "use_rslora",
             .dora = "use_dora",
             .alpha_per_rank = 2,
             .all_by_default = true},
            model_type);
  if (!config.flag("pissa_init")) return;
  config.set_text("model.lora.init", "pissa", "pissa_init");
  config.remark("pissa_init: of an exact singular value decomposition, whatever 'pissa_iter' is");
}

void check_llama_factory_method(TrainerConfig& config) {
  const bool predicts = config.flag("do_predict") || config.flag("predict_with_generate");
  if (config.find("do_train") ? !config.flag("do_train") : predicts) {
    config.refuse(predicts ? "do_predict" : "do_train", "the config does not train",
                  "'accel-run generate' and 'accel-run predict' use a trained model");
  }
  if (config.flag("train_from_scratch")) {
    config.refuse("train_from_scratch", "it starts from random weights",
                  "write the sizes of the model without 'model.weights'");
  }
  for (const char* key : {"use_adam_mini", "use_muon"}) {
    const bool muon = key == std::string("use_muon");
    if (!config.flag(key)) continue;
    if (muon && config.program().has_component("optimizer", "muon")) continue;
    config.refuse(key, text("the optimizer '{}' is not available", key + 4));
  }
}

/// The names of a list or of a text with commas.
std::vector<std::string> names_in(const Node::Entry* entry) {
  std::vector<std::string> names;
  if (!entry) return names;
  if (const Node::List* list = entry->node.list()) {
    for (const Node& item : *list) names.push_back(item.scalar() ? item.scalar()->text : "");
    return names;
  }
  std::string rest = entry->node.scalar() ? entry->node.scalar()->text + ',' : "";
  for (size_t end = 0; (end = rest.find(',')) != rest.npos; rest.erase(0, end + 1)) {
    if (const std::string name = trimmed(rest.substr(0, end)); !name.empty()) names.push_back(name);
  }
  return names;
}

void read_llama_factory_data(TrainerConfig& config) {
  const std::vector<std::string> names = names_in(config.find("dataset"));
  if (names.empty()) return config.skip("dataset", "it names no data: the recipe has none");
  const bool pretrains = config.text("stage") == "pt";
  const auto method = llama_factory_preference(config);
  const bool prefers = method || config.text("stage") == "dpo";
  std::vector<DataFile> files;
  for (const std::string& name : names) {
    DataFile file;
    file.kind = pretrains ? DataFile::Kind::kWindows
                : method  ? kind_of_data(*method)
                : prefers ? DataFile::Kind::kPreference
                          : DataFile::Kind::kChat;
    file.path = name;
    if (method && method->is_unpaired()) file.label = "kto_tag";
    file.max_length = config.text("cutoff_len").value_or("2048");
    file.first = pretrains ? "" : config.text("max_samples").value_or("");
    file.pack = config.flag("packing") || config.flag("neat_packing");
    file.answers_only = !config.flag("train_on_prompt");
    file.last_answer = config.flag("mask_history");
    files.push_back(std::move(file));
  }
  set_datasets(config, "data.train", files, "dataset");
  if (pretrains && config.find("packing") && !config.flag("packing")) {
    config.remark(
        "packing: texts are concatenated, and attention crosses their borders, where LLaMA-Factory "
        "truncates each text");
  }
  if (!pretrains && config.flag("packing") && !config.flag("neat_packing")) {
    config.remark("packing: attention does not cross conversations, as with neat_packing");
  }
  if (files.size() == 1) {
    config.set_text(length_key(files.front()), files.front().max_length, "cutoff_len");
  }
  for (const char* key :
       {"cutoff_len", "packing", "neat_packing", "train_on_prompt", "mask_history"}) {
    config.take(key);
  }
  if (pretrains && config.find("max_samples")) {
    config.skip("max_samples",
                "a sample is a sequence of the concatenated text: write 'limit' for it");
  }
  config.take("max_samples");
  if (const auto name = config.text("template"); name && !pretrains) {
    config.skip("template", text("the chat template is that of the tokenizer, which can differ "
                                 "from '{}'",
                                 *name));
  }
  config.ignore("template");
  set_held_out(config, "val_size");
}

/// Its Muon scales the learning rate as AdamW's, and has AdamW's rate for other parameters.
void read_llama_factory_muon(TrainerConfig& config) {
  config.set_text("optimizer.type", "muon", "use_muon");
  config.put("optimizer.adjust_lr_fn", "match_rms_adamw");
  config.put("optimizer.adamw.lr", config.text("learning_rate").value_or("5e-05"));
  config.put("optimizer.adamw.weight_decay", config.text("weight_decay").value_or("0"));
}

/// Its GaLore projects the linear layers that `galore_target` names, by default those of blocks.
void read_llama_factory_galore(TrainerConfig& config) {
  config.set_text("optimizer.type", "galore_adamw", "use_galore");
  for (const auto& [option, key, usual] :
       {std::tuple("rank", "galore_rank", "16"), std::tuple("scale", "galore_scale", "2.0"),
        std::tuple("update_proj_gap", "galore_update_interval", "200"),
        std::tuple("proj_type", "galore_proj_type", "std")}) {
    config.set_text(std::string("optimizer.") + option, config.text(key).value_or(usual), key);
  }
  if (config.flag("galore_layerwise")) {
    config.skip("galore_layerwise", "gradients of all layers are kept until the update");
  }
  const std::string target = config.text("galore_target").value_or("all");
  if (target != "all") {
    config.skip("galore_target", "write patterns of the other matrices in 'optimizer.exclude'");
  }
}

/// Of Megatron's adapter.
constexpr RenamedOption kMegatronOptions[] = {{"tensor_model_parallel_size", "tp_degree"},
                                              {"pipeline_model_parallel_size", "pp_degree"},
                                              {"context_parallel_size", "context_parallel_size"},
                                              {"sequence_parallel", "sequence_parallelism"}};

void read_llama_factory(const Node& tree, Imported& out, const ProgramIndex& program) {
  TrainerConfig config(tree, out, program);
  if (const std::string key = version_1_key(tree); !key.empty()) {
    return config.refuse(key,
                         "it is a key of LLaMA-Factory's version 1, whose configs are not read",
                         "import a config of version 0, with 'model_name_or_path' and 'stage'");
  }
  check_llama_factory_method(config);
  const std::string type = read_model_folder(config, "model_name_or_path");
  read_stage(config, type);
  read_llama_factory_data(config);
  if (const auto method = llama_factory_preference(config)) {
    read_llama_factory_preference(config, *method);
  }
  read_training_arguments(
      config, {}, {.activation_checkpointing = !config.flag("disable_gradient_checkpointing")});
  if (config.flag("pure_bf16")) {
    config.set_text("accelerator.mixed_precision", "bf16", "pure_bf16");
    config.remark("pure_bf16: weights have 32 bits, with autocast to bf16");
  }
  read_early_stopping(config, "early_stopping_steps");
  if (config.flag("use_muon")) read_llama_factory_muon(config);
  if (config.flag("use_galore")) read_llama_factory_galore(config);
  read_decay_exclusions(config, type, config.text("model_name_or_path").value_or(""));
  config.take("disable_gradient_checkpointing");
  read_trainer_options(config);
  if (config.flag("disable_shuffling")) {
    config.set_text("data.loader.shuffle", "false", "disable_shuffling");
  }
  if (config.flag("compute_accuracy")) {
    config.set("eval.metrics", {Node::List{scalar_node("accuracy")}, {}}, "compute_accuracy");
  }
  read_renamed_sharding(config, kMegatronFamily, kMegatronOptions);
  refuse_label_smoothing(config, "label_smoothing_factor");
  std::vector<TrainerKey> keys(std::begin(kLlamaFactoryKeys), std::end(kLlamaFactoryKeys));
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.apply_table(keys);
}

}  // namespace

const TrainerFormat kLlamaFactory = {"llama-factory", "a LLaMA-Factory config",
                                     &llama_factory_shown_by, &read_llama_factory};

}  // namespace accel
