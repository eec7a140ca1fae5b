#include "runner/launch/config_keys.h"

namespace accel {
namespace {

using Effect = ForeignWord::Effect;

constexpr ForeignWord kConfigKeys[] = {
    {"compute_environment", Effect::kRefused, reasons::kSageMaker, "local_machine",
     "write LOCAL_MACHINE"},
    {"distributed_type", Effect::kPlain},
    {"num_processes", Effect::kPlain},
    {"mixed_precision", Effect::kPrecision, "accelerator.mixed_precision"},
    {"fp16", Effect::kPlain},
    {"use_cpu", Effect::kTurnsOn, "accelerator.device=cpu"},
    {"debug", Effect::kTurnsOn, "accelerator.debug=collectives"},
    {"num_machines", Effect::kSets, "accelerator.num_machines"},
    {"machine_rank", Effect::kSets, "accelerator.machine_rank"},
    {"main_process_ip", Effect::kSets, "accelerator.main_process_ip"},
    {"main_process_port", Effect::kSets, "accelerator.main_process_port", "0"},
    {"gradient_accumulation_steps", Effect::kSets, "train.gradient_accumulation_steps", "auto"},
    {"gradient_clipping", Effect::kSets, "train.max_grad_norm", "auto none"},
    {"gpu_ids", Effect::kSets, "accelerator.gpu_ids", "all"},
    {"rdzv_backend", Effect::kIdle, reasons::kRendezvous, "static"},
    {"same_network", Effect::kIdle, reasons::kRendezvous, "true yes on 1 false no off 0"},
    {"main_training_function", Effect::kIdle, reasons::kNoScript, "main"},
    {"enable_cpu_affinity", Effect::kRefused, reasons::kAffinity, kOffWords, "write false"},
    {"downcast_bf16", Effect::kRefused, reasons::kTpu, kOffWords, "write 'no'"},
    {"mpirun_config", Effect::kPlain},
    {"dynamo_config", Effect::kPlain},
    {"dynamo_backend", Effect::kRefused, reasons::kCompile, kOffWords, "write 'NO'"},
    {"fp8_config", Effect::kRefused, reasons::kFp8},
    {"deepspeed_config", Effect::kRefused, reasons::kDeepSpeed},
    {"fsdp_config", Effect::kRefused, reasons::kSplit},
    {"megatron_lm_config", Effect::kRefused, reasons::kMegatron},
    {"parallelism_config", Effect::kRefused, reasons::kSplit},
    {"tpu_name", Effect::kRefused, reasons::kTpu},
    {"tpu_zone", Effect::kRefused, reasons::kTpu},
    {"tpu_use_cluster", Effect::kRefused, reasons::kTpu, kOffWords},
    {"tpu_use_sudo", Effect::kRefused, reasons::kTpu, kOffWords},
    {"tpu_vm", Effect::kRefused, reasons::kTpu},
    {"tpu_env", Effect::kRefused, reasons::kTpu},
    {"command_file", Effect::kRefused, reasons::kTpu},
    {"commands", Effect::kRefused, reasons::kTpu},
    {"ec2_instance_type", Effect::kRefused, reasons::kSageMaker},
    {"iam_role_name", Effect::kRefused, reasons::kSageMaker},
    {"image_uri", Effect::kRefused, reasons::kSageMaker},
    {"profile", Effect::kRefused, reasons::kSageMaker},
    {"region", Effect::kRefused, reasons::kSageMaker},
    {"base_job_name", Effect::kRefused, reasons::kSageMaker},
    {"pytorch_version", Effect::kRefused, reasons::kSageMaker},
    {"transformers_version", Effect::kRefused, reasons::kSageMaker},
    {"py_version", Effect::kRefused, reasons::kSageMaker},
    {"sagemaker_inputs_file", Effect::kRefused, reasons::kSageMaker},
    {"sagemaker_metrics_file", Effect::kRefused, reasons::kSageMaker},
    {"additional_args", Effect::kRefused, reasons::kSageMaker},
};

constexpr ForeignWord kDynamoKeys[] = {
    {"dynamo_backend", Effect::kRefused, reasons::kCompile, kOffWords, "write 'NO'"},
    {"dynamo_mode", Effect::kDetail},
    {"dynamo_use_fullgraph", Effect::kDetail},
    {"dynamo_use_dynamic", Effect::kDetail},
    {"dynamo_use_regional_compilation", Effect::kDetail},
};

constexpr ForeignWord kMpirunKeys[] = {
    {"mpirun_hostfile", Effect::kRefused, reasons::kMpi, "", reasons::kMpiHint},
    {"mpirun_ccl", Effect::kIdle, "accel-run does not use oneCCL", "0 1"},
};

}  // namespace

std::span<const ForeignWord> config_keys() {
  return kConfigKeys;
}

std::span<const ForeignWord> config_section_keys(std::string_view name) {
  if (name == "dynamo_config") return kDynamoKeys;
  if (name == "mpirun_config") return kMpirunKeys;
  return {};
}

std::vector<std::string> config_distributed_types() {
  return {"NO",         "MULTI_CPU",  "MULTI_GPU",   "MULTI_NPU", "MULTI_MLU",
          "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",   "MULTI_HPU", "MULTI_NEURON",
          "DEEPSPEED",  "FSDP",       "MEGATRON_LM", "XLA"};
}

}  // namespace accel
