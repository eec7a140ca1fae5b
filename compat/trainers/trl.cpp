// Configs of TRL's command line, `trl sft --config FILE`, and of scripts with TRL's arguments.
#include <cctype>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/data_readings.h"
#include "compat/trainers/decay_readings.h"
#include "compat/trainers/grpo_readings.h"
#include "compat/trainers/import_recipe.h"
#include "compat/trainers/model_families.h"
#include "compat/trainers/preference_readings.h"
#include "compat/trainers/shared_readings.h"
#include "compat/trainers/trainer.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Use = TrainerKey::Use;

constexpr auto kSampling = "train_sampling_strategy";
constexpr auto kTrlTemplate = "write a file of the template in 'data.train.chat_template'";

constexpr TrainerKey kTrlKeys[] = {
    {"model_name_or_path", Use::kRead},
    {"model_revision", Use::kNot, "download this revision of the model", "main"},
    {"model_init_kwargs", Use::kNot, "the model's folder has its config"},
    {"tokenizer_name_or_path", Use::kNot, "write its folder in 'data.train.tokenizer'"},
    {"trust_remote_code", Use::kNot, import_reasons::kRemoteCode, "false"},
    {"dtype", Use::kIdle},
    {"torch_dtype", Use::kIdle},
    {"attn_implementation", Use::kIdle},
    {"use_liger", Use::kIdle},
    {"use_peft", Use::kRead, "", "false"},
    {"lora_r", Use::kIdle},
    {"lora_alpha", Use::kIdle},
    {"lora_dropout", Use::kIdle},
    {"lora_target_modules", Use::kIdle},
    {"lora_modules_to_save", Use::kIdle},
    {"lora_task_type", Use::kRead},
    {"lora_target_parameters", Use::kOther, "lora of parameters"},
    {"use_rslora", Use::kIdle},
    {"use_dora", Use::kIdle},
    {"load_in_8bit", Use::kOther, "quantization", "false"},
    {"load_in_4bit", Use::kRead, "", "false"},
    {"bnb_4bit_quant_type", Use::kIdle},
    {"use_bnb_nested_quant", Use::kIdle},
    {"spectrum_config_path", Use::kRead},
    {"unfrozen_parameters", Use::kRead},
    {"dataset_name", Use::kRead},
    {"dataset_id_or_path", Use::kRead},
    {"dataset_config", Use::kRead},
    {"dataset_mixture", Use::kRead},
    {"dataset_mixer", Use::kRead},
    {"datasets", Use::kRead},
    {"dataset_splits", Use::kIdle},
    {"dataset_train_split", Use::kIdle},
    {"dataset_test_split", Use::kNot, "write it in 'data.eval'", "test"},
    {"dataset_text_field", Use::kRead},
    {"dataset_kwargs", Use::kNot, "the dataset adds no tokens to those of the template"},
    {"dataset_num_proc", Use::kIdle},
    {"dataset_streaming", Use::kNot, "write a local file in 'data.train'", "false"},
    {"shuffle_dataset", Use::kIdle},
    {"chat_template", Use::kNot, kTrlTemplate},
    {"chat_template_path", Use::kNot, kTrlTemplate},
    {"eos_token", Use::kLack, "custom tokens"},
    {"pad_token", Use::kIdle},
    {"max_length", Use::kRead},
    {"max_seq_length", Use::kRead},
    {"truncation_mode", Use::kNot, "a text is cut at its end", "keep_start"},
    {"label_smoothing", Use::kRead, "", "0"},
    {"disable_dropout", Use::kIdle},
    {"simpo_gamma", Use::kRead},
    {"cpo_alpha", Use::kRead},
    {"rpo_alpha", Use::kRead},
    {"precompute_ref_log_probs", Use::kIdle},
    {"precompute_ref_batch_size", Use::kIdle},
    {"ref_model_init_kwargs", Use::kIdle},
    {"generate_during_eval", Use::kIdle},
    {"sync_ref_model", Use::kOther, "preference", "false"},
    {"use_weighting", Use::kOther, "preference", "false"},
    {"reference_free", Use::kOther, "preference", "false"},
    {"ld_alpha", Use::kOther, "preference"},
    {"loss_weights", Use::kOther, "preference"},
    {"f_divergence_type", Use::kOther, "preference", "reverse_kl"},
    {"desirable_weight", Use::kRead, "", "1.0 1"},
    {"undesirable_weight", Use::kRead, "", "1.0 1"},
    {"center_rewards_coefficient", Use::kRead},
    {"packing", Use::kRead, "", "false"},
    {"packing_strategy", Use::kNot, "samples are packed whole and cut, as by 'bfd'", "bfd ffd"},
    {"eval_packing", Use::kIdle},
    {"padding_free", Use::kIdle},
    {"pad_to_multiple_of", Use::kRead},
    {"assistant_only_loss", Use::kRead, "", "false"},
    {"completion_only_loss", Use::kNot, "it is for rows with a prompt and a completion"},
    {"activation_offloading", Use::kRead, "", "false"},
    {"router_aux_loss_coef", Use::kRead},
    {"loss_type", Use::kRead, "", "nll"},
    {"beta", Use::kRead},
    {"max_prompt_length", Use::kNot,
     "'max_length' cuts a prompt with its answer: set 'truncation_mode: keep_end' to cut prompts"},
    {"max_completion_length", Use::kRead},
    {"num_generations", Use::kRead},
    {"reward_funcs", Use::kRead},
    {"reward_weights", Use::kIdle},
    {"use_vllm", Use::kIdle},
    {"temperature", Use::kIdle},
    {"vllm_mode", Use::kIdle},
    {"vllm_gpu_memory_utilization", Use::kIdle},
    {"vllm_device", Use::kIdle},
    {"vllm_max_model_len", Use::kIdle},
    {"vllm_max_model_length", Use::kIdle},
    {"vllm_tensor_parallel_size", Use::kIdle},
    {"vllm_server_host", Use::kIdle},
    {"vllm_server_port", Use::kIdle},
    {"vllm_importance_sampling_correction", Use::kIdle},
    {"num_completions_to_print", Use::kIdle},
    {"log_unique_prompts", Use::kIdle},
    {"cache_implementation", Use::kIdle},
    {"ds3_gather_for_generation", Use::kIdle},
    {"num_generations_eval", Use::kNot, "evaluation samples 'task.num_generations' too"},
    {"generation_kwargs", Use::kNot, "write its keys in 'task'"},
    {"chat_template_kwargs", Use::kNot, "write them in each row"},
    {"multi_objective_aggregation", Use::kOther, "rl", "sum_then_normalize"},
    {"top_entropy_quantile", Use::kOther, "rl", "1.0 1"},
    {"entropy_coef", Use::kOther, "rl", "0.0 0"},
    {"use_adaptive_entropy", Use::kOther, "rl", "false"},
    {"off_policy_mask_threshold", Use::kOther, "rl"},
    {"log_completions", Use::kIdle},
    {"system_prompt", Use::kNot, "write it as the first message of each conversation"},
    {"hub_model_revision", Use::kIdle},
    {"wandb_entity", Use::kNot, "write a tracker of type wandb with this 'entity'"},
    {"wandb_project", Use::kNot, "write a tracker of type wandb with this 'project'"},
    {"callbacks", Use::kNot, import_reasons::kPython},
    {"benchmarks", Use::kNot, import_reasons::kPython},
};

std::string trl_shown_by(const Node& tree) {
  if (!tree.find("model_name_or_path")) return {};
  for (const char* key : {"dataset_name", "dataset_mixture", "dataset_mixer", "dataset_id_or_path",
                          "dataset_text_field", "use_peft", "max_prompt_length", "reward_funcs"}) {
    if (tree.find(key)) return std::string("model_name_or_path, ") + key;
  }
  return {};
}

/// The names of the losses: DPO's `loss_type` may be a list, whose losses are added.
std::vector<std::string> losses_of(const TrainerConfig& config) {
  const Node::Entry* entry = config.find("loss_type");
  if (!entry) return {};
  const Node::List one = {entry->node};
  std::vector<std::string> losses;
  for (const Node& item : entry->node.list() ? *entry->node.list() : one) {
    losses.push_back(item.scalar() ? item.scalar()->text : "");
  }
  return losses;
}

/// The method that the run's name or folder contains as a whole word.
std::optional<PreferenceMethod> named_method(TrainerConfig& config) {
  for (const char* task : {"dpo", "cpo", "kto", "orpo", "simpo"}) {
    for (const char* key : {"output_dir", "hub_model_id", "run_name"}) {
      std::string name = ascii_lower(config.text(key).value_or(""));
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = ' ';
      }
      if (!has_word(name, task)) continue;
      if (task == std::string("cpo")) config.refuse_lacking(key, "preference");
      config.remark(text("{}: a config of 'trl {}', as its name says", key, task));
      return preference_method(task);
    }
  }
  return std::nullopt;
}

/// The method, whose name is that of TRL's command, by the keys of its trainer.
std::optional<PreferenceMethod> shown_method(TrainerConfig& config, const std::string& loss) {
  if (auto method = preference_method(loss)) return method;
  for (const char* key : {"desirable_weight", "undesirable_weight"}) {
    if (config.find(key)) return preference_method("kto");
  }
  if (config.find("center_rewards_coefficient")) return preference_method("reward");
  for (const char* key : {"beta", "max_prompt_length", "precompute_ref_log_probs", "rpo_alpha"}) {
    if (!config.find(key) || !loss.empty()) continue;
    if (auto method = named_method(config)) return method;
    config.remark(text("{}: a config of 'trl dpo', as it names no other method", key));
    return preference_method("dpo");
  }
  return std::nullopt;
}

std::optional<PreferenceMethod> trl_preference(TrainerConfig& config) {
  const std::vector<std::string> losses = losses_of(config);
  const bool adds_sft = losses.size() == 2 && losses.back() == "sft";
  if (losses.size() > 1 && !adds_sft) config.refuse_lacking("loss_type", "preference");
  const auto method = shown_method(config, losses.empty() ? "" : losses.front());
  // CPO has SimPO's loss as one of its own.
  if (config.number("cpo_alpha") && method && method->task != "simpo") {
    config.refuse_lacking("cpo_alpha", "preference");
  }
  return method;
}

/// The key of reinforcement learning, or null.
const char* trl_rl_key(const TrainerConfig& config) {
  for (const char* key : {"reward_funcs", "num_generations", "max_completion_length"}) {
    if (config.find(key)) return key;
  }
  return nullptr;
}

void check_trl_method(TrainerConfig& config) {
  for (const char* key : {"spectrum_config_path", "unfrozen_parameters"}) {
    if (!config.find(key)) continue;
    config.refuse(key, "it trains a part of the parameters",
                  "write patterns of the other parameters in 'train.freeze'");
  }
}

void check_trl_loss(TrainerConfig& config) {
  for (const char* key : {"beta", "max_prompt_length"}) {
    if (config.find(key)) return config.refuse_lacking(key, "preference");
  }
  const std::vector<std::string> losses = losses_of(config);
  const std::string loss = losses.empty() ? "nll" : losses.front();
  if (loss == "dft") return config.refuse_lacking("loss_type", "other loss");
  if (loss != "nll" && loss != "chunked_nll") config.refuse_lacking("loss_type", "preference");
  config.ignore("loss_type");
}

/// The task, and the dataset where its columns are known.
void read_trl_preferences(TrainerConfig& config, const PreferenceMethod& method) {
  read_preference_task(config, method,
                       {.smooths_sigmoid = method.task != "dpo",
                        .sft_weight = method.task == "dpo" ? "rpo_alpha" : "cpo_alpha",
                        .default_simpo_sft_weight = 1},
                       "loss_type");
  if (losses_of(config).size() == 2) config.put("task.sft_weight", "1");
  if (config.find("disable_dropout") && !config.flag("disable_dropout")) {
    config.set_text("task.dropout", "true", "disable_dropout");
  }
  const char* key = config.find("dataset_name") ? "dataset_name" : "dataset_id_or_path";
  const auto name = config.text(key);
  if (!name) {
    for (const char* list : {"dataset_mixture", "dataset_mixer", "datasets"}) {
      if (!config.find(list)) continue;
      config.skip(list, text("write each dataset in the list 'data.train', as type {}",
                             method.is_unpaired() ? "unpaired" : "preference"));
    }
    return config.miss("'data': the recipe has none");
  }
  DataFile file;
  file.kind = kind_of_data(method);
  file.path = *name;
  file.split = config.text("dataset_train_split").value_or("");
  file.subset = config.text("dataset_config").value_or("");
  file.max_length = config.text("max_length").value_or("1024");
  file.keep_end = config.text("truncation_mode") == "keep_end";
  set_datasets(config, "data.train", {file}, key);
  config.set_text("data.train.max_length", file.max_length, "max_length");
  if (file.keep_end && method.is_unpaired()) {
    config.skip("truncation_mode", "a prompt with its answer is cut at its end");
  }
  config.take("truncation_mode");
  config.take("dataset_config");
  if (method.task == "kto" && !config.find(kSampling)) {
    config.set_text("data.loader.shuffle", "false", kSampling);
  }
}

/// Rows of a prompt and a completion, on whose completions TRL computes the loss by default.
void read_trl_completions(TrainerConfig& config, DataFile& file) {
  constexpr auto kKey = "completion_only_loss";
  file.completions = true;
  file.pack = config.flag("packing");
  file.answers_only = !config.find(kKey) || config.flag(kKey);
  config.take(kKey);
  if (config.flag("assistant_only_loss")) {
    config.skip("assistant_only_loss", "all messages of a completion are learnt");
  }
}

void read_trl_data(TrainerConfig& config) {
  const char* key = config.find("dataset_name") ? "dataset_name" : "dataset_id_or_path";
  const auto name = config.text(key);
  if (!name) {
    for (const char* list : {"dataset_mixture", "dataset_mixer", "datasets"}) {
      if (config.find(list)) {
        config.skip(list, "write each dataset in the list 'data.train', as type chat or jsonl");
      }
    }
    return config.miss("'data': the recipe has none");
  }
  const auto length = config.text(config.find("max_length") ? "max_length" : "max_seq_length");
  DataFile file;
  file.path = *name;
  file.split = config.text("dataset_train_split").value_or("");
  file.subset = config.text("dataset_config").value_or("");
  file.max_length = length.value_or("1024");
  file.answers_only = config.flag("assistant_only_loss");
  const std::string found = is_local_path(*name) ? field_of_file(*name) : "";
  const auto field = config.text("dataset_text_field");
  // A config that names the loss of completions shows the columns of a dataset of the hub.
  const bool asks_for_completions = found.empty() && config.flag("completion_only_loss");
  if (found == "completion" || asks_for_completions) {
    read_trl_completions(config, file);
  } else if (field || found == "text") {
    const bool wraps = config.text("packing_strategy") == "wrapped";
    file.pack = config.flag("packing");
    file.kind = file.pack && wraps ? DataFile::Kind::kWindows : DataFile::Kind::kDocuments;
    file.field = field.value_or("text");
    if (wraps) config.take("packing_strategy");
  } else if (found == "messages") {
    file.pack = config.flag("packing");
  } else {
    config.miss("'data': the recipe has none");
    return config.skip(key,
                       "its columns are not in the config: write 'data.train' of type chat "
                       "for messages, or of type jsonl for texts");
  }
  if (file.kind != DataFile::Kind::kChat && config.flag("assistant_only_loss")) {
    config.skip("assistant_only_loss", "the samples are texts, which have no roles");
  }
  if (file.kind == DataFile::Kind::kWindows) {
    config.remark("packing: texts are concatenated, and attention crosses their borders");
  }
  set_datasets(config, "data.train", {file}, key);
  const char* limit = config.find("max_length") ? "max_length" : "max_seq_length";
  config.set_text(length_key(file), file.max_length, limit);
  for (const char* used : {"dataset_text_field", "packing", "assistant_only_loss", "max_length",
                           "max_seq_length", "dataset_config"}) {
    config.take(used);
  }
}

void read_trl_quantization(TrainerConfig& config) {
  constexpr auto kKey = "load_in_4bit";
  if (!config.flag(kKey)) return;
  if (!config.flag("use_peft")) {
    return config.refuse(kKey, "quantized weights are frozen, and there is no adapter",
                         "write 'use_peft: true', or leave it out");
  }
  config.take(kKey);
  set_quantization(config, {.type = config.text("bnb_4bit_quant_type").value_or("nf4"),
                            .double_quant = config.flag("use_bnb_nested_quant"),
                            .key = kKey,
                            .type_key = "bnb_4bit_quant_type"});
}

/// TRL's trainers add the load-balancing loss of experts whatever `output_router_logits` is in the
/// model's config, but for that of rewards.
void read_router_loss(TrainerConfig& config, const std::string& type, bool is_reward) {
  constexpr auto kKey = "router_aux_loss_coef";
  const std::optional<double> given = config.number(kKey);
  const bool has_experts = has_word("mixtral qwen2_moe qwen3_moe", type);
  if (given && *given != 0 && !type.empty() && !has_experts) {
    return config.refuse(kKey, text("a model of type '{}' has no load-balancing loss", type),
                         "leave it out");
  }
  if (is_reward || (!has_experts && !(type.empty() && given))) return config.ignore(kKey);
  constexpr auto kOfClass = "0.001";  // of the three types
  const std::string model = config.text("model_name_or_path").value_or("");
  const std::string own = value_in_folder(model, kKey);
  config.set_text("model.router_aux_loss_coef",
                  given         ? show_number(*given)
                  : own.empty() ? kOfClass
                                : own,
                  kKey);
}

/// The adapter's task decides which head is trained beside it.
void check_task_type(TrainerConfig& config, bool is_reward) {
  constexpr auto kKey = "lora_task_type";
  const std::string type = config.text(kKey).value_or("CAUSAL_LM");
  config.ignore(kKey);
  if (is_reward && type != "SEQ_CLS" && !config.find("lora_modules_to_save")) {
    config.remark(
        text("{}: with '{}' TRL leaves the head for rewards at its random weights, and the recipe "
             "trains it",
             kKey, type));
  }
  if (is_reward || type == "CAUSAL_LM") return;
  config.refuse(kKey, text("an adapter of '{}' is not that of a language model", type),
                "write 'lora_task_type: CAUSAL_LM'");
}

void remark_weight_type(TrainerConfig& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::string type = config.text(key).value_or("");
    if (type == "bfloat16" || type == "float16") {
      config.remark(text("{}: weights have 32 bits, not those of {}", key, type));
    }
  }
}

void read_trl_adapter(TrainerConfig& config, const std::string& type, bool is_reward) {
  if (!config.flag("use_peft")) return;
  config.take("use_peft");
  check_task_type(config, is_reward);
  read_lora(config,
            {.rank = "lora_r",
             .alpha = "lora_alpha",
             .dropout = "lora_dropout",
             .targets = "lora_target_modules",
             .saved = "lora_modules_to_save",
             .rslora = "use_rslora",
             .dora = "use_dora",
             .default_rank = 16,
             .default_alpha = 32,
             .default_dropout = "0.05",
             .regex = true},
            type);
}

void read_trl(const Node& tree, Imported& out, const ProgramIndex& program) {
  TrainerConfig config(tree, out, program);
  check_trl_method(config);
  if (const Node::Entry* length = tree.find("max_length"); length && !config.find("max_length")) {
    config.skip("max_length", "samples are cut at 1024 tokens: write a greater length");
  }
  const bool learns_by_rewards = trl_rl_key(config) != nullptr;
  if (learns_by_rewards) check_grpo_config(config);
  const auto preference = learns_by_rewards ? std::nullopt : trl_preference(config);
  if (!preference && !learns_by_rewards) check_trl_loss(config);
  const std::string type = read_model_folder(config, "model_name_or_path");
  read_trl_quantization(config);
  remark_weight_type(config);
  const bool is_reward = preference && preference->task == "reward";
  read_router_loss(config, type, is_reward);
  read_trl_adapter(config, type, is_reward);
  if (preference) {
    read_trl_preferences(config, *preference);
  } else if (learns_by_rewards) {
    read_grpo_task(config);
  } else {
    read_trl_data(config);
  }
  read_training_arguments(config, {},
                          {.lr = learns_by_rewards              ? "1e-06"
                                 : !preference                  ? "2e-05"
                                 : preference->task == "reward" ? "1e-04"
                                                                : "1e-06",
                           .log = "10 steps",
                           .bf16 = true,
                           .activation_checkpointing = !config.find("gradient_checkpointing")});
  read_decay_exclusions(config, type, config.text("model_name_or_path").value_or(""));
  if (learns_by_rewards) read_grpo_batches(config);
  read_trainer_options(config);
  refuse_label_smoothing(config, "label_smoothing_factor");
  for (const char* key : {"max_length", "max_seq_length", "packing", "assistant_only_loss",
                          "dataset_text_field", "dataset_config", "pad_to_multiple_of"}) {
    if (config.find(key) && !config.has("data.train")) {
      config.skip(key, "write it in 'data.train'");
    }
  }
  std::vector<TrainerKey> keys(std::begin(kTrlKeys), std::end(kTrlKeys));
  keys.insert(keys.end(), trainer_keys().begin(), trainer_keys().end());
  config.apply_table(keys);
}

}  // namespace

const TrainerFormat kTrl = {"trl", "a config of TRL", &trl_shown_by, &read_trl};

}  // namespace accel
