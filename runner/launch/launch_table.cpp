#include "runner/launch/launch_table.h"

#include <algorithm>

namespace accel {
namespace {

using Effect = ForeignWord::Effect;

constexpr bool kSwitch = false;  ///< for LaunchFlag::takes_value

constexpr std::string_view kDataParallel = "leave it out: ranks train on shares of the batch";
constexpr std::string_view kNoModule = "a recipe is a file, not a Python module";
constexpr std::string_view kRankLogs = "only rank 0 writes to the terminal";
constexpr std::string_view kLogHint = "the run's folder has the log";
constexpr std::string_view kNoRoles = "all ranks have the same role";
constexpr std::string_view kNoRendezvousConf = "its options are those of the recipe";
constexpr std::string_view kJoin = "set 'accelerator.join_timeout' or 'accelerator.timeout'";
constexpr std::string_view kNoPolling = "nothing is asked again and again";

constexpr LaunchFlag kFlags[] = {
    {{"help", Effect::kPlain}, kSwitch},
    {{"h", Effect::kPlain}, kSwitch},
    {{"config_file", Effect::kPlain}},
    {{"config", Effect::kPlain}},
    {{"cpu", Effect::kTurnsOn, "accelerator.device=cpu"}, kSwitch},
    {{"mixed_precision", Effect::kPrecision, "accelerator.mixed_precision"}},
    {{"num_processes", Effect::kSets, "accelerator.num_processes"}},
    {{"num_machines", Effect::kSets, "accelerator.num_machines"}},
    {{"machine_rank", Effect::kSets, "accelerator.machine_rank"}},
    {{"main_process_ip", Effect::kSets, "accelerator.main_process_ip"}},
    {{"main_process_port", Effect::kSets, "accelerator.main_process_port", "0"}},
    {{"num_cpu_threads_per_process", Effect::kSets, "accelerator.num_cpu_threads_per_process"}},
    {{"max_restarts", Effect::kSets, "accelerator.max_restarts"}},
    {{"gradient_accumulation_steps", Effect::kSets, "train.gradient_accumulation_steps", "auto"}},
    {{"gradient_clipping", Effect::kSets, "train.max_grad_norm", "auto none"}},
    {{"debug", Effect::kTurnsOn, "accelerator.debug=collectives"}, kSwitch},
    // What they ask for is so anyway.
    {{"quiet", Effect::kPlain}, kSwitch},
    {{"q", Effect::kPlain}, kSwitch},
    {{"no_python", Effect::kPlain}, kSwitch},
    {{"same_network", Effect::kPlain}, kSwitch},
    {{"no_tpu_cluster", Effect::kPlain}, kSwitch},

    {{"module", Effect::kRefused, kNoModule}, kSwitch},
    {{"m", Effect::kRefused, kNoModule}, kSwitch},
    {{"multi_gpu", Effect::kTurnsOn, "accelerator.distributed_type=multi_gpu"}, kSwitch},
    {{"gpu_ids", Effect::kSets, "accelerator.gpu_ids", "all"}},
    {{"enable_cpu_affinity", Effect::kRefused, reasons::kAffinity}, kSwitch},
    {{"tee", Effect::kRefused, kRankLogs, "0", kLogHint}},
    {{"t", Effect::kRefused, kRankLogs, "0", kLogHint}},
    {{"log_dir", Effect::kRefused, kRankLogs, "", kLogHint}},
    {{"role", Effect::kRefused, kNoRoles, "default"}},
    {{"rdzv_backend", Effect::kRefused, reasons::kRendezvous, "static"}},
    {{"rdzv_conf", Effect::kRefused, kNoRendezvousConf, "", kJoin}},
    {{"monitor_interval", Effect::kRefused, kNoPolling, "0.1"}},
    {{"main_training_function", Effect::kRefused, reasons::kNoScript, "main"}},
    {{"mpirun_hostfile", Effect::kRefused, reasons::kMpi, "", reasons::kMpiHint}},
    {{"dynamo_backend", Effect::kRefused, reasons::kCompile, kOffWords}},
    {{"dynamo_mode", Effect::kRefused, reasons::kCompile, "default"}},
    {{"dynamo_use_fullgraph", Effect::kRefused, reasons::kCompile}, kSwitch},
    {{"dynamo_use_dynamic", Effect::kRefused, reasons::kCompile}, kSwitch},
    {{"dynamo_use_regional_compilation", Effect::kRefused, reasons::kCompile}, kSwitch},
    {{"tpu", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"tpu_cluster", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"tpu_use_sudo", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"downcast_bf16", Effect::kRefused, reasons::kTpu}, kSwitch},
    {{"vm", Effect::kRefused, reasons::kTpu}},
    {{"env", Effect::kRefused, reasons::kTpu}},
    {{"aws_access_key_id", Effect::kRefused, reasons::kSageMaker}},
    {{"aws_secret_access_key", Effect::kRefused, reasons::kSageMaker}},
    {{"use_deepspeed", Effect::kRefused, reasons::kDeepSpeed, "", kDataParallel}, kSwitch},
    {{"use_fsdp", Effect::kRefused, reasons::kSplit, "", kDataParallel}, kSwitch},
    {{"use_megatron_lm", Effect::kRefused, reasons::kMegatron, "", kDataParallel}, kSwitch},
    {{"use_parallelism_config", Effect::kRefused, reasons::kSplit, "", kDataParallel}, kSwitch},
    {{"fp8_use_autocast_during_eval", Effect::kRefused, reasons::kFp8}, kSwitch},
};

/// Flags with a value that belong to something refused.
struct RefusedFlags {
  std::string_view reason;
  std::string_view prefix;
  std::string_view names;  ///< between blanks
};

constexpr RefusedFlags kRefusedFlags[] = {
    {reasons::kDeepSpeed, "",
     "zero_stage offload_optimizer_device offload_param_device offload_optimizer_nvme_path "
     "offload_param_nvme_path zero3_init_flag zero3_save_16bit_model"},
    {reasons::kDeepSpeed, "deepspeed_",
     "config_file hostfile exclusion_filter inclusion_filter multinode_launcher "
     "moe_layer_cls_names"},
    {reasons::kSplit, "fsdp_",
     "version offload_params min_num_params sharding_strategy reshard_after_forward "
     "auto_wrap_policy transformer_layer_cls_to_wrap backward_prefetch state_dict_type "
     "forward_prefetch use_orig_params cpu_ram_efficient_loading sync_module_states "
     "activation_checkpointing activation_checkpointing_offload"},
    {reasons::kFp8, "fp8_",
     "backend margin interval format amax_history_len amax_compute_algo "
     "override_linear_precision opt_level enable_fsdp_float8_all_gather pad_inner_dim"},
    {reasons::kSplit, "parallelism_config_",
     "dp_replicate_size dp_shard_size tp_size cp_size cp_backend cp_comm_strategy sp_size "
     "sp_backend sp_seq_length sp_seq_length_is_variable sp_attn_implementation"},
    {reasons::kMegatron, "megatron_lm_",
     "tp_degree pp_degree num_micro_batches sequence_parallelism recompute_activations "
     "recompute_granularity recompute_method recompute_num_layers use_distributed_optimizer "
     "gradient_clipping use_custom_fsdp no_load_optim no_save_optim eod_mask_loss "
     "optimizer_cpu_offload overlap_cpu_optimizer_d2h_h2d use_precision_aware_optimizer "
     "decoder_last_pipeline_num_layers attention_backend expert_model_parallel_size "
     "context_parallel_size attention_dropout hidden_dropout attention_softmax_in_fp32 "
     "expert_tensor_parallel_size calculate_per_token_loss use_rotary_position_embeddings"},
};

/// The names are views into `names`, which lives as long.
struct FlagTable {
  std::vector<std::string> names;
  std::vector<LaunchFlag> flags;
};

FlagTable make_table() {
  FlagTable table;
  std::vector<std::string_view> why;
  for (const RefusedFlags& family : kRefusedFlags) {
    for (size_t begin = 0; begin < family.names.size();) {
      const size_t end = std::min(family.names.find(' ', begin), family.names.size());
      table.names.push_back(std::string(family.prefix));
      table.names.back().append(family.names.substr(begin, end - begin));
      why.push_back(family.reason);
      begin = end + 1;
    }
  }
  table.flags.assign(std::begin(kFlags), std::end(kFlags));
  for (size_t i = 0; i < why.size(); ++i) {
    table.flags.push_back({{table.names[i], Effect::kRefused, why[i], "", kDataParallel}});
  }
  return table;
}

}  // namespace

std::span<const LaunchFlag> launch_flags() {
  static const FlagTable table = make_table();
  return table.flags;
}

const LaunchFlag* find_launch_flag(std::string_view name) {
  const auto flags = launch_flags();
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [&](const LaunchFlag& flag) { return flag.word.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

std::vector<std::string> launch_flag_names() {
  std::vector<std::string> names;
  for (const LaunchFlag& flag : launch_flags()) {
    if (flag.word.name.size() > 1) names.emplace_back(flag.word.name);
  }
  return names;
}

}  // namespace accel
