#include "compat/sharding/sharding_keys.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

using Act = ShardingKey::Effect;

constexpr std::string_view kBackward =
    "it can gather the wrong block; the next block is gathered before a block's gradients";
constexpr std::string_view kAlwaysPrefetched = "the next block is always prefetched";
constexpr std::string_view kOwnShapes = "parameters always keep their own names and shapes";
constexpr std::string_view kSameWeights = "all ranks always start with the same weights";
constexpr std::string_view kBlockUnits = "blocks are always gathered one by one";
constexpr std::string_view kWriteFalse = "leave it out, or set it to false";

constexpr ShardingKey kFsdpKeys[] = {
    {"version", "1 2", Act::kSame},
    {"sharding_strategy", "full_shard 1", Act::kSets, "accelerator.fsdp.stage=3"},
    {"sharding_strategy", "shard_grad_op 2", Act::kSets, "accelerator.fsdp.stage=2"},
    {"sharding_strategy", "no_shard 3", Act::kSets, "accelerator.fsdp.stage=0"},
    {"sharding_strategy", "hybrid_shard 4", Act::kSets,
     "accelerator.fsdp.stage=3 accelerator.parallelism.dp_replicate=@machines"},
    {"sharding_strategy", "hybrid_shard_zero2 _hybrid_shard_zero2 5", Act::kSets,
     "accelerator.fsdp.stage=2 accelerator.parallelism.dp_replicate=@machines"},
    // Accelerate's questions for version 1 write the strategy here.
    {"reshard_after_forward", "full_shard 1 true", Act::kSets, "accelerator.fsdp.stage=3"},
    {"reshard_after_forward", "shard_grad_op 2 false", Act::kSets, "accelerator.fsdp.stage=2"},
    {"reshard_after_forward", "no_shard 3", Act::kSets, "accelerator.fsdp.stage=0"},
    {"reshard_after_forward", "hybrid_shard 4", Act::kSets,
     "accelerator.fsdp.stage=3 accelerator.parallelism.dp_replicate=@machines"},
    {"reshard_after_forward", "hybrid_shard_zero2 _hybrid_shard_zero2 5", Act::kSets,
     "accelerator.fsdp.stage=2 accelerator.parallelism.dp_replicate=@machines"},
    {"offload_params", "false", Act::kSame},
    {"offload_params", "true", Act::kSets, "accelerator.fsdp.offload=cpu"},
    {"auto_wrap_policy", "transformer_based_wrap size_based_wrap", Act::kSame},
    {"auto_wrap_policy", "no_wrap", Act::kNoEffect, kBlockUnits},
    {"transformer_layer_cls_to_wrap", "*", Act::kBlocks, "", "",
     "auto_wrap_policy=transformer_based_wrap"},
    {"transformer_cls_to_wrap", "*", Act::kBlocks, "", "",
     "auto_wrap_policy=transformer_based_wrap"},
    {"min_num_params", "number", Act::kInteger, "accelerator.fsdp.min_num_params", "",
     "auto_wrap_policy=size_based_wrap"},
    {"backward_prefetch", "backward_pre 1", Act::kSame},
    {"backward_prefetch", "no_prefetch", Act::kNoEffect, kAlwaysPrefetched},
    {"backward_prefetch", "backward_post 2", Act::kRefused, kBackward, "write BACKWARD_PRE"},
    // The name in configs of older versions.
    {"backward_prefetch_policy", "backward_pre 1", Act::kSame},
    {"backward_prefetch_policy", "no_prefetch", Act::kNoEffect, kAlwaysPrefetched},
    {"backward_prefetch_policy", "backward_post 2", Act::kRefused, kBackward, "write BACKWARD_PRE"},
    {"forward_prefetch", "true false", Act::kSame},
    {"state_dict_type", "full_state_dict 1", Act::kSets, "accelerator.fsdp.state_dict=full"},
    {"state_dict_type", "sharded_state_dict 3", Act::kSets, "accelerator.fsdp.state_dict=sharded"},
    {"state_dict_type", "local_state_dict 2", Act::kRefused,
     "files of flat local shards fit one number of ranks only",
     "write SHARDED_STATE_DICT, which any number of ranks reads"},
    {"final_state_dict_type", "full_state_dict 1", Act::kSame},
    {"final_state_dict_type", "*", Act::kNoEffect,
     "the last checkpoint is written as the others are"},
    {"use_orig_params", "true", Act::kSame},
    {"use_orig_params", "false", Act::kNoEffect, kOwnShapes},
    {"sync_module_states", "true", Act::kSame},
    {"sync_module_states", "false", Act::kNoEffect, kSameWeights},
    {"limit_all_gathers", "true", Act::kSame},
    {"limit_all_gathers", "false", Act::kNoEffect, "at most two gathers are under way"},
    {"cpu_ram_efficient_loading", "true false", Act::kSame},  // ranks read their rows only
    {"activation_checkpointing", "false", Act::kSame},
    {"activation_checkpointing", "true", Act::kSets, "train.activation_checkpointing=blocks"},
    {"activation_checkpointing_offload", "false", Act::kSame},
    {"activation_checkpointing_offload", "true", Act::kSets, "train.activation_cpu_offload=true"},
    {"ignored_modules", "*", Act::kPatterns, "accelerator.fsdp.ignored"},
    {"mixed_precision_policy", "no fp32 float32", Act::kSame},
    {"mixed_precision_policy", "bf16 bfloat16", Act::kSets,
     "accelerator.fsdp.param_dtype=bf16 accelerator.fsdp.reduce_dtype=bf16"},
    {"mixed_precision_policy", "fp16 float16", Act::kSets,
     "accelerator.fsdp.param_dtype=fp16 accelerator.fsdp.reduce_dtype=fp16"},
    {"mixed_precision_policy.param_dtype", "fp32 float32", Act::kSame},
    {"mixed_precision_policy.param_dtype", "bf16 bfloat16", Act::kSets,
     "accelerator.fsdp.param_dtype=bf16"},
    {"mixed_precision_policy.param_dtype", "fp16 float16", Act::kSets,
     "accelerator.fsdp.param_dtype=fp16"},
    {"mixed_precision_policy.reduce_dtype", "fp32 float32", Act::kSame},
    {"mixed_precision_policy.reduce_dtype", "bf16 bfloat16", Act::kSets,
     "accelerator.fsdp.reduce_dtype=bf16"},
    {"mixed_precision_policy.reduce_dtype", "fp16 float16", Act::kSets,
     "accelerator.fsdp.reduce_dtype=fp16"},
    {"mixed_precision_policy.*", "*", Act::kNoEffect,
     "types of outputs and buffers follow 'mixed_precision'"},
    {"xla", "false", Act::kSame},
    {"xla", "true", Act::kRefused, reasons::kTpu, kWriteFalse},
    {"xla_*", "*", Act::kNoEffect, reasons::kTpu},
};

constexpr ShardingRemark kFsdpRemarks[] = {
    {"use_cpu=true", "Accelerate trains FSDP on CPU ranks data parallel; here the ranks shard"},
    {"strategy_in_reshard=true",
     "'accelerate launch' drops a strategy in 'reshard_after_forward' and shards fully; the recipe "
     "keeps it"},
    {"mixed_precision=bf16",
     "Accelerate sums gradients of FSDP in bf16; here they are summed in fp32, unless "
     "'accelerator.fsdp.reduce_dtype' is bf16"},
    {"mixed_precision=fp16",
     "Accelerate sums gradients of FSDP in fp16; here they are summed in fp32, unless "
     "'accelerator.fsdp.reduce_dtype' is fp16"},
    {"version=2 mixed_precision=bf16",
     "trained parameters and their checkpoints are fp32, as under FSDP2, which raises them"},
    {"version=2 mixed_precision=fp16",
     "trained parameters and their checkpoints are fp32, as under FSDP2, which raises them"},
    {"activation_checkpointing=true",
     "a recomputed pass repeats the dropout of the first; Accelerate's draws another"},
};

constexpr std::string_view kOneMachine =
    "start accel-run once on each machine, with 'num_machines' and 'machine_rank'";
constexpr std::string_view kNoHosts = "accel-run does not start processes on other machines";

constexpr ShardingKey kDeepSpeedKeys[] = {
    {"zero_stage", "0", Act::kSets, "accelerator.fsdp.stage=0"},
    {"zero_stage", "1", Act::kSets, "accelerator.fsdp.stage=1"},
    {"zero_stage", "2", Act::kSets, "accelerator.fsdp.stage=2"},
    {"zero_stage", "3", Act::kSets, "accelerator.fsdp.stage=3"},
    {"offload_optimizer_device", "cpu", Act::kSets, "accelerator.fsdp.offload=cpu"},
    {"offload_optimizer_device", "nvme", Act::kSets, "accelerator.fsdp.offload=disk"},
    {"offload_param_device", "cpu", Act::kSets, "accelerator.fsdp.offload=cpu"},
    {"offload_param_device", "nvme", Act::kSets, "accelerator.fsdp.offload=disk"},
    {"offload_optimizer_nvme_path", "*", Act::kSets, "accelerator.fsdp.offload_path", "",
     "offload_optimizer_device=nvme"},
    {"offload_param_nvme_path", "*", Act::kSets, "accelerator.fsdp.offload_path", "",
     "offload_param_device=nvme"},
    {"gradient_accumulation_steps", "number", Act::kSets, "train.gradient_accumulation_steps"},
    {"gradient_clipping", "0", Act::kSame},
    {"gradient_clipping", "number", Act::kSets, "train.max_grad_norm"},
    {"zero3_init_flag", "true false", Act::kSame},
    {"zero3_save_16bit_model", "false", Act::kSame},
    {"zero3_save_16bit_model", "true", Act::kNoEffect, "checkpoints hold the fp32 weights"},
    {"deepspeed_multinode_launcher", "standard", Act::kSame},
    {"deepspeed_multinode_launcher", "*", Act::kRefused, kNoHosts, kOneMachine},
    {"deepspeed_hostfile", "*", Act::kRefused, kNoHosts, kOneMachine},
    {"deepspeed_exclusion_filter", "*", Act::kRefused, kNoHosts, kOneMachine},
    {"deepspeed_inclusion_filter", "*", Act::kRefused, kNoHosts, kOneMachine},
    {"deepspeed_moe_layer_cls_names", "*", Act::kNoEffect, reasons::kWholeBlocks},
    {"zero3_init", "true false", Act::kSame},
    {"deepspeed_config_file", "*", Act::kFile},
};

constexpr std::string_view kPadded = "sequences of any length are padded";
constexpr std::string_view kOneAttention = "attention has one implementation";

constexpr ShardingKey kParallelismKeys[] = {
    {"dp_replicate_size", "number", Act::kSets, "accelerator.parallelism.dp_replicate"},
    {"dp_shard_size", "number", Act::kSets, "accelerator.parallelism.dp_shard"},
    {"tp_size", "1", Act::kSame},
    {"tp_size", "number", Act::kSets, "accelerator.parallelism.tp"},
    {"cp_size", "1", Act::kSame},
    {"cp_size", "number", Act::kSets, "accelerator.parallelism.cp"},
    {"cp_backend", "torch", Act::kSame},
    {"cp_comm_strategy", "allgather", Act::kSame},
    {"cp_comm_strategy", "alltoall", Act::kSets, "accelerator.parallelism.cp_comm_strategy=ring"},
    {"sp_size", "1", Act::kSame},
    {"sp_size", "number", Act::kSets, "accelerator.parallelism.sp"},
    {"sp_backend", "deepspeed", Act::kSame},
    {"sp_seq_length", "*", Act::kNoEffect, kPadded},
    {"sp_seq_length_is_variable", "true false", Act::kSame},
    {"sp_attn_implementation", "*", Act::kNoEffect, kOneAttention},
};

constexpr std::string_view kPartsHint = "leave it out, or write 1";
constexpr std::string_view kOrFalse = "leave it out, or write false";

constexpr std::string_view kOfModel = "it is an option of the recipe's model";
constexpr std::string_view kAllBlocks = "all blocks are computed again";
constexpr std::string_view kWithGranularity = "recompute_granularity=full";

constexpr ShardingKey kMegatronKeys[] = {
    {"tp_degree", "1", Act::kSame},
    {"tp_degree", "number", Act::kSets, "accelerator.parallelism.tp"},
    {"pp_degree", "1", Act::kSame},
    {"pp_degree", "number", Act::kSets, "accelerator.parallelism.pp"},
    {"context_parallel_size", "1", Act::kSame},
    {"context_parallel_size", "number", Act::kSets, "accelerator.parallelism.cp"},
    {"expert_model_parallel_size", "1", Act::kSame},
    {"expert_model_parallel_size", "number", Act::kSets, "accelerator.parallelism.ep"},
    {"expert_tensor_parallel_size", "1", Act::kSame},
    {"expert_tensor_parallel_size", "number", Act::kRefused, reasons::kExpertTensor, kPartsHint},
    {"sequence_parallelism", "false", Act::kSame},
    {"sequence_parallelism", "true", Act::kSets, "accelerator.parallelism.sequence_parallel=true"},
    {"use_distributed_optimizer", "false", Act::kSame},
    {"use_distributed_optimizer", "true", Act::kSets, "accelerator.fsdp.stage=1"},
    {"num_micro_batches", "number", Act::kInteger, "train.gradient_accumulation_steps"},
    {"gradient_clipping", "0", Act::kSame},
    {"gradient_clipping", "number", Act::kSets, "train.max_grad_norm"},
    {"recompute_granularity", "full", Act::kSets, "train.activation_checkpointing=blocks"},
    {"recompute_granularity", "selective", Act::kSets, "train.activation_checkpointing=selective"},
    {"recompute_activations", "false", Act::kSame},
    {"recompute_activations", "true", Act::kSets, "train.activation_checkpointing=selective"},
    {"recompute_method", "*", Act::kNoEffect, kAllBlocks, "", kWithGranularity},
    {"recompute_num_layers", "*", Act::kNoEffect, kAllBlocks, "", kWithGranularity},
    {"use_custom_fsdp", "false", Act::kSame},
    {"use_custom_fsdp", "true", Act::kRefused, "the recipe says what is sharded",
     "write 'accelerator.fsdp' into the recipe"},
    {"no_load_optim", "false", Act::kSame},
    {"no_load_optim", "true", Act::kRefused, "a resume restores the optimizer", kOrFalse},
    {"no_save_optim", "false", Act::kSame},
    {"no_save_optim", "true", Act::kRefused, "checkpoints have the optimizer's state", kOrFalse},
    {"eod_mask_loss", "false", Act::kSame},
    {"eod_mask_loss", "true", Act::kRefused, "the data says which targets are masked", kOrFalse},
    {"optimizer_cpu_offload", "false", Act::kSame},
    {"optimizer_cpu_offload", "true", Act::kRefused, "offload is an option of 'accelerator.fsdp'",
     "write 'accelerator.fsdp.offload' into the recipe"},
    {"overlap_cpu_optimizer_d2h_h2d", "*", Act::kNoEffect, "the optimizer is not offloaded"},
    {"use_precision_aware_optimizer", "false", Act::kSame},
    {"use_precision_aware_optimizer", "true", Act::kRefused, "optimizer state is in fp32",
     kOrFalse},
    {"decoder_last_pipeline_num_layers", "*", Act::kNoEffect, reasons::kPipeline},
    {"num_layers_per_virtual_pipeline_stage", "*", Act::kNoEffect, reasons::kPipeline},
    {"attention_backend", "*", Act::kNoEffect, "attention has one implementation per device"},
    {"attention_dropout", "*", Act::kNoEffect, kOfModel},
    {"hidden_dropout", "*", Act::kNoEffect, kOfModel},
    {"use_rotary_position_embeddings", "*", Act::kNoEffect, kOfModel},
    {"attention_softmax_in_fp32", "true false", Act::kSame},
    {"calculate_per_token_loss", "true", Act::kSame},
    {"calculate_per_token_loss", "false", Act::kNoEffect, "losses are means over target tokens"},
};

constexpr ShardingRemark kMegatronRemarks[] = {
    {"context_parallel_size=", "Accelerate takes a 'context_parallel_size' that is not set for 2"},
};

/// Of the models in models/; a class of transformers that is not here has no model.
constexpr std::string_view kBlockClasses[] = {
    "BertLayer",
    "CamembertLayer",
    "CLIPEncoderLayer",
    "DebertaV2Layer",
    "ElectraLayer",
    "Gemma2DecoderLayer",
    "Gemma3DecoderLayer",
    "GemmaDecoderLayer",
    "GPT2Block",
    "GPTNeoXLayer",
    "LlamaDecoderLayer",
    "MistralDecoderLayer",
    "MixtralDecoderLayer",
    "ModernBertEncoderLayer",
    "MT5Block",
    "OPTDecoderLayer",
    "Phi3DecoderLayer",
    "Qwen2DecoderLayer",
    "Qwen2MoeDecoderLayer",
    "Qwen3DecoderLayer",
    "Qwen3MoeDecoderLayer",
    "ResNetBasicLayer",
    "ResNetBottleNeckLayer",
    "RobertaLayer",
    "SmolLM3DecoderLayer",
    "T5Block",
    "TransformerBlock",
    "ViTLayer",
    "XLMRobertaLayer",
};

bool has_spelling(std::string_view values, const std::string& word) {
  for (size_t begin = 0; begin < values.size();) {
    const size_t end = std::min(values.find(' ', begin), values.size());
    if (values.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

bool names_match(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

}  // namespace

const ShardingFamily kFsdpFamily = {
    .type = "FSDP",
    .section = "fsdp_config",
    .prefix = "fsdp_",
    .flag_prefix = "fsdp_",
    .variables = "FSDP_",
    .switch_name = "USE_FSDP",
    .keys = kFsdpKeys,
    .remarks = kFsdpRemarks,
};

const ShardingFamily kDeepSpeedFamily = {
    .type = "DEEPSPEED",
    .section = "deepspeed_config",
    .prefix = "deepspeed_",
    .flag_prefix = "",
    .variables = "ACCELERATE_DEEPSPEED_",
    .switch_name = "USE_DEEPSPEED",
    .keys = kDeepSpeedKeys,
    .remarks = {},
};

const ShardingFamily kParallelismFamily = {
    .type = "",
    .section = "parallelism_config",
    .prefix = "parallelism_config_",
    .flag_prefix = "parallelism_config_",
    .variables = "PARALLELISM_CONFIG_",
    .switch_name = "USE_PARALLELISM_CONFIG",
    .keys = kParallelismKeys,
    .remarks = {},
};

const ShardingFamily kMegatronFamily = {
    .type = "MEGATRON_LM",
    .section = "megatron_lm_config",
    .prefix = "megatron_lm_",
    .flag_prefix = "megatron_lm_",
    .variables = "MEGATRON_LM_",
    .switch_name = "USE_MEGATRON_LM",
    .keys = kMegatronKeys,
    .remarks = kMegatronRemarks,
};

std::span<const ShardingFamily* const> sharding_families() {
  static constexpr const ShardingFamily* kAll[] = {&kFsdpFamily, &kDeepSpeedFamily,
                                                   &kParallelismFamily, &kMegatronFamily};
  return kAll;
}

bool is_left_open(const Node& value) {
  if (const Scalar* scalar = value.scalar()) {
    return scalar->text.empty() || has_spelling("none auto null", ascii_lower(scalar->text));
  }
  if (const Node::List* list = value.list()) return list->empty();
  if (const Node::Map* map = value.map()) return map->empty();
  return true;
}

bool has_value(std::string_view values, const Node& value) {
  if (values == "*") return true;
  const Scalar* scalar = value.scalar();
  if (!scalar) return false;
  const std::string word = ascii_lower(scalar->text);
  if (has_spelling(values, word)) return true;
  if (has_spelling("true yes on y t 1", word) && has_spelling(values, "true")) return true;
  if (has_spelling("false no off n f 0", word) && has_spelling(values, "false")) return true;
  const auto number = parse_number({scalar->text}).value;
  if (!number) return false;
  if (has_spelling(values, "number")) return true;
  for (size_t begin = 0; begin < values.size();) {
    const size_t end = std::min(values.find(' ', begin), values.size());
    const auto other = parse_number({std::string(values.substr(begin, end - begin))}).value;
    if (other && *other == *number) return true;
    begin = end + 1;
  }
  return false;
}

ShardingMatch match_option(const ShardingFamily& family, std::string_view name, const Node& value) {
  ShardingMatch match;
  for (const bool prefixed : {false, true}) {
    if (prefixed && (match.key || family.prefix.empty())) break;
    const std::string all = prefixed ? std::string(family.prefix).append(name) : std::string(name);
    for (const ShardingKey& key : family.keys) {
      if (!names_match(key.name, all)) continue;
      if (!match.key) match.key = &key;
      // A row of the whole name hides those of wildcards.
      if (key.name != match.key->name) continue;
      if (!match.row && has_value(key.values, value)) match.row = &key;
    }
  }
  if (match.key || !name.starts_with(family.prefix) || family.prefix.empty()) return match;
  return match_option(family, name.substr(family.prefix.size()), value);
}

std::vector<std::string> option_names(const ShardingFamily& family) {
  std::vector<std::string> names;
  for (const ShardingKey& key : family.keys) {
    if (key.name.ends_with('*') || (!names.empty() && names.back() == key.name)) continue;
    names.emplace_back(key.name);
  }
  return names;
}

std::string option_values(const ShardingFamily& family, std::string_view name) {
  std::string all;
  for (const ShardingKey& key : family.keys) {
    if (key.name != name) continue;
    std::string words(key.values == "number" ? "a number" : key.values);
    for (size_t at; key.values != "number" && (at = words.find(' ')) != words.npos;) {
      words.replace(at, 1, "/");
    }
    all.append(all.empty() ? "" : ", ").append(words);
  }
  for (size_t at; (at = all.find('/')) != all.npos;) all.replace(at, 1, ", ");
  return all;
}

std::span<const std::string_view> block_classes() {
  return kBlockClasses;
}

}  // namespace accel
