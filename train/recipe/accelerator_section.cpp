#include "train/recipe/accelerator_section.h"

#include <string>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMostProcesses = 65536;

Rule<Duration> time_span() {
  return {[](const Duration& v) { return v.unit == Duration::Unit::kSeconds && v.value >= 1; },
          "a time of at least a second, such as '10 min'", ""};
}

Rule<Duration> whole_steps(int64_t least) {
  return {[least](const Duration& v) {
            return v.unit == Duration::Unit::kSteps && v.value >= static_cast<double>(least);
          },
          text("a number of steps, at least {}", least), ""};
}

bool is_list_of_ids(const std::string& text) {
  if (text == "all") return true;
  bool digit = false;  // the last character is a digit
  for (const char c : text) {
    if (c == ',' ? !digit : c < '0' || c > '9') return false;
    digit = c != ',';
  }
  return digit;
}

Rule<std::string> list_of_ids() {
  return {is_list_of_ids, "all, or numbers with commas such as 0,1",
          R"("pattern": "^(all|[0-9]+(,[0-9]+)*)$")"};
}

/// The checks below compare values, not presence: a resolved recipe has every option.
class Check {
 public:
  Check(const Node& node, Reading& reading) : node_(node), reading_(reading) {}

  void error(const char* key, const std::string& message, const std::string& hint) {
    const Node::Entry* entry = node_.find(key);
    // For a section, the position of its key.
    const Span& where = !entry ? node_.where : entry->node.map() ? entry->where : entry->node.where;
    reading_.problems.error(where, message, hint);
  }

 private:
  const Node& node_;
  Reading& reading_;
};

void check_scaler(const AcceleratorSection& section, Check& check) {
  if (section.mixed_precision == MixedPrecision::kFp16 || section.grad_scaler == ScalerOptions{}) {
    return;
  }
  check.error("grad_scaler", "'grad_scaler' has no effect without mixed_precision: fp16",
              "leave it out, or train in fp16");
}

void check_machines(const AcceleratorSection& section, Check& check) {
  const int64_t machines = section.num_machines;
  if (section.machine_rank >= machines) {
    check.error(
        "machine_rank",
        text("'machine_rank' is {}, but there are {} machines", section.machine_rank, machines),
        "machine ranks start at 0");
  }
  if (section.num_processes && *section.num_processes % machines != 0) {
    check.error("num_processes",
                text("{} processes cannot be divided evenly among {} machines",
                     *section.num_processes, machines),
                "'num_processes' is the total over all machines");
  }
  if (machines > 1 && section.main_process_ip.empty()) {
    check.error("num_machines", "'main_process_ip' is missing",
                "give the address of machine 0, the same on all machines");
  }
  if (machines > 1 && !section.main_process_port) {
    check.error("num_machines", "'main_process_port' is missing",
                "give a free port of machine 0, the same on all machines, such as 29500");
  }
  if (machines == 1 && !section.main_process_ip.empty()) {
    check.error("main_process_ip", "'main_process_ip' has no effect on one machine",
                "leave it out, or set 'num_machines'");
  }
}

void check_combinations(const AcceleratorSection& section, Check& check) {
  if (section.distributed_type == DistributedType::kNo && section.num_processes.value_or(1) > 1) {
    check.error(
        "distributed_type",
        text("'distributed_type' is no, but there are {} processes", *section.num_processes),
        "leave it at auto, or set 'num_processes' to 1");
  }
  if (section.reduction == Reduction::kCanonical && section.ddp.comm_hook != CommHook::kNo) {
    check.error("reduction", "'reduction' canonical does not support 'ddp.comm_hook'",
                "leave one of the two out");
  }
}

void check_device(const AcceleratorSection& section, Check& check) {
  const bool cpu = section.wanted_device() == DeviceChoice::kCpu;
  if (cpu && section.distributed_type == DistributedType::kMultiGpu) {
    check.error("distributed_type", "'distributed_type' is multi_gpu, but 'device' is cpu",
                "leave one of the two out");
  }
  if (section.device == DeviceChoice::kCuda &&
      section.distributed_type == DistributedType::kMultiCpu) {
    check.error("distributed_type", "'distributed_type' is multi_cpu, but 'device' is cuda",
                "leave one of the two out");
  }
  if (cpu && section.gpu_ids != "all") {
    check.error("gpu_ids", "'gpu_ids' has no effect on the CPU", "leave it out");
  }
}

void check_local_sgd(const AcceleratorSection& section, Check& check) {
  if (!section.local_sgd.every) return;
  const std::string hint = "leave one of the two out";
  if (section.reduction == Reduction::kCanonical) {
    check.error(
        "local_sgd",
        "'reduction' canonical has no effect with 'local_sgd', which does not reduce gradients",
        hint);
  }
  if (section.ddp.comm_hook != CommHook::kNo) {
    check.error("local_sgd",
                "'ddp.comm_hook' has no effect with 'local_sgd', which does not reduce gradients",
                hint);
  }
  if (section.mixed_precision == MixedPrecision::kFp16) {
    check.error("local_sgd",
                "'local_sgd' does not support fp16: ranks would skip different updates",
                "train in bf16, or leave 'local_sgd' out");
  }
}

void check_power_sgd(const AcceleratorSection& section, Check& check) {
  const bool used = section.ddp.comm_hook == CommHook::kPowerSgd;
  if (used && section.mixed_precision == MixedPrecision::kFp16) {
    check.error(
        "ddp",
        "'comm_hook' power_sgd does not support fp16: the loss scale of its error feedback changes",
        "train in bf16, or use another 'comm_hook'");
  }
  if (!used && !(section.ddp.power_sgd == PowerSgdSection())) {
    check.error("ddp", "'power_sgd' has no effect without comm_hook: power_sgd",
                "leave it out, or set 'comm_hook'");
  }
}

/// Sharding reduces gradients by rows, in its own way.
void check_other_reductions(const AcceleratorSection& section, Check& check) {
  if (section.local_sgd.every) {
    check.error("fsdp", "'fsdp' does not support 'local_sgd': a rank alone has no whole weights",
                "leave one of the two out");
  }
  if (section.ddp.comm_hook == CommHook::kPowerSgd) {
    check.error(
        "fsdp",
        "'fsdp' does not support 'ddp.comm_hook' power_sgd, which compresses whole matrices",
        "leave one of the two out");
  } else if (section.ddp.comm_hook != CommHook::kNo) {
    check.error("fsdp", "'ddp.comm_hook' has no effect with 'fsdp'",
                "set 'fsdp.reduce_dtype' instead");
  }
  const FsdpSection& fsdp = section.fsdp;
  if (section.reduction != Reduction::kCanonical) return;
  if (fsdp.reduce_dtype != FsdpDtype::kFp32) {
    check.error(
        "fsdp",
        "'fsdp.reduce_dtype' must be fp32 with 'reduction' canonical: rounding would depend "
        "on the number of ranks",
        "leave one of the two out");
  }
  if (fsdp.sync_each_batch.value_or(false)) {
    check.error(
        "fsdp",
        "'sync_each_batch' has no effect with 'reduction' canonical, which reduces once per "
        "step",
        "leave it out, or leave 'reduction' at bucketed");
  }
}

void check_offload(const AcceleratorSection& section, Check& check) {
  const FsdpSection& fsdp = section.fsdp;
  if (fsdp.offload_path && fsdp.offload != Offload::kDisk) {
    check.error("fsdp", "'offload_path' has no effect without 'offload: disk'",
                "leave it out, or set 'offload: disk'");
  }
  if (fsdp.offload != Offload::kDisk) return;
  if (section.mixed_precision == MixedPrecision::kFp16) {
    check.error("fsdp",
                "'offload: disk' does not support fp16: loss scaling reads all gradients once more",
                "train in bf16");
  }
  if (section.reduction == Reduction::kCanonical) {
    check.error("fsdp",
                "'offload: disk' does not support 'reduction' canonical, which keeps whole "
                "gradients in memory",
                "leave 'reduction' at bucketed");
  }
  if (fsdp.state_dict == StateDictType::kFull) {
    check.error("fsdp",
                "'offload: disk' does not support 'state_dict: full', which takes the memory of "
                "the whole state",
                "leave 'state_dict' at sharded; 'accel-run checkpoint convert' makes full "
                "checkpoints");
  }
}

void check_fsdp(const AcceleratorSection& section, Check& check) {
  const FsdpSection& fsdp = section.fsdp;
  if (fsdp.stage == 0) {
    if (fsdp.reshard_after_forward || fsdp.sync_each_batch || !fsdp.ignored.empty() ||
        fsdp.min_num_params > 0 || fsdp.param_dtype || fsdp.reduce_dtype != FsdpDtype::kFp32 ||
        fsdp.state_dict != StateDictType::kSharded || fsdp.offload != Offload::kNone) {
      check.error("fsdp", "the options of 'fsdp' have no effect without 'stage'",
                  "add 'stage: 3', or leave 'fsdp' out");
    }
    if (section.parallelism.dp_shard.value_or(1) > 1) {
      check.error("parallelism", "'dp_shard' has no effect without 'fsdp'",
                  "add 'fsdp: {stage: 3}', or leave 'dp_shard' out");
    }
    return;
  }
  if (fsdp.reshard_after_forward && fsdp.stage != 3) {
    check.error("fsdp",
                text("'reshard_after_forward' has no effect at stage {}, which keeps parameters",
                     fsdp.stage),
                "leave it out, or set 'stage: 3'");
  }
  if (fsdp.sync_each_batch.value_or(false) && fsdp.stage == 1) {
    check.error("fsdp", "'sync_each_batch' has no effect at stage 1, which keeps whole gradients",
                "leave it out, or set 'stage: 2'");
  }
  const FsdpDtype of_autocast = FsdpSection().param_dtype_under(section.mixed_precision);
  const FsdpDtype param_dtype = fsdp.param_dtype.value_or(of_autocast);
  if (param_dtype != FsdpDtype::kFp32 && param_dtype != of_autocast) {
    check.error("fsdp", "'param_dtype' is a 16-bit type other than that of 'mixed_precision'",
                "leave 'param_dtype' out, or set 'mixed_precision' to the same type");
  }
  check_other_reductions(section, check);
  check_offload(section, check);
}

void check_accelerator(const AcceleratorSection& section, const Node& node, Reading& reading) {
  Check check(node, reading);
  check_scaler(section, check);
  check_machines(section, check);
  check_combinations(section, check);
  check_device(section, check);
  check_local_sgd(section, check);
  check_power_sgd(section, check);
  check_fsdp(section, check);
}

/// Device, precision, threads and kernels of one rank.
Schema<AcceleratorSection> with_computing(Schema<AcceleratorSection> schema) {
  return std::move(schema)
      .field("mixed_precision", &AcceleratorSection::mixed_precision,
             "Autocast type of matrix products. bf16 and fp16 are faster and take less memory; "
             "fp16 needs loss scaling.")
      .hint_for({"precision", "dtype", "torch_dtype"},
                "16>fp16|16-mixed>fp16|float16>fp16|16-true>fp16|bf16-mixed>bf16|bf16-true>bf16|"
                "bfloat16>bf16|32>no|32-true>no|float32>no|fp32>no|{}")
      .hint_for({"fp16"}, "fp16")
      .hint_for({"bf16", "amp", "use_amp"}, "bf16")
      .field("grad_scaler", &AcceleratorSection::grad_scaler, "Loss scaling under `fp16`.")
      .field("device", &AcceleratorSection::device,
             "Device of each rank. cuda: an NVIDIA GPU; auto: a GPU if there is one, else the CPU.")
      .hint_for({"gpu", "use_cuda"}, "cuda")
      .hint_for({"cpu", "use_cpu", "no_cuda"}, "cpu")
      .field("gpu_ids", &AcceleratorSection::gpu_ids, "GPUs of this machine to use, such as `0,1`.",
             list_of_ids())
      .on_resume(Change::kFree)
      .hint_for({"gpu_id", "cuda_visible_devices"})
      .field("num_cpu_threads_per_process", &AcceleratorSection::num_cpu_threads_per_process,
             "Threads of one rank; auto: OMP_NUM_THREADS, else this machine's cores divided by its "
             "ranks.",
             if_given<Auto>(between<int64_t>(1, 1024)))
      .on_resume(Change::kFree)
      .hint_for({"num_threads", "omp_num_threads"})
      .field("kernels", &AcceleratorSection::kernels,
             "fused: faster kernels of accel-run, whose results differ from PyTorch's in the last "
             "digits. reference: PyTorch's operators only.");
}

/// Sizes of the mesh, and what is sharded over it.
Schema<AcceleratorSection> with_mesh(Schema<AcceleratorSection> schema) {
  return std::move(schema)
      .field("parallelism", &AcceleratorSection::parallelism,
             "Sizes of the mesh of ranks; their product is the number of ranks.")
      .hint_for({"parallelism_config"}, "{dp_shard: auto}")
      .field("fsdp", &AcceleratorSection::fsdp,
             "Fully sharded data parallel training (FSDP, ZeRO): ranks hold rows of "
             "parameters, gradients and optimizer state.")
      .hint_for({"fsdp_config"}, "{stage: 3}");
}

}  // namespace

Schema<DdpSection> DdpSection::schema() {
  return Schema<DdpSection>()
      .field("bucket_cap_mb", &DdpSection::bucket_cap_mb,
             "Size limit of a gradient bucket in MiB. Larger buckets need fewer all-reduces, "
             "smaller ones overlap more with backward.",
             between<int64_t>(1, 4096))
      .hint_for({"ddp_bucket_cap_mb"})
      .field("broadcast_buffers", &DdpSection::broadcast_buffers,
             "Broadcast rank 0's buffers, such as running statistics, before each step.")
      .hint_for({"ddp_broadcast_buffers"})
      .field("comm_hook", &DdpSection::comm_hook, "Compression of gradients in the all-reduce.")
      .field("power_sgd", &DdpSection::power_sgd, "Options of comm_hook power_sgd.");
}

Schema<PowerSgdSection> PowerSgdSection::schema() {
  return Schema<PowerSgdSection>()
      .field("rank", &PowerSgdSection::rank,
             "Rank of the low-rank approximation of a gradient. Higher is more accurate and "
             "communicates more.",
             between<int64_t>(1, 1024))
      .field("start", &PowerSgdSection::start,
             "Steps without compression at the start, where gradients change most.", whole_steps(2))
      .field("min_compression_rate", &PowerSgdSection::min_compression_rate,
             "Gradients whose compression ratio is not above this are not compressed.",
             more_than(0.0));
}

Schema<ParallelismSection> ParallelismSection::schema() {
  return Schema<ParallelismSection>()
      .field("dp_replicate", &ParallelismSection::dp_replicate,
             "Groups of ranks that each hold the whole model; auto: the ranks divided by "
             "`dp_shard`.",
             if_given<Auto>(between<int64_t>(1, kMostProcesses)))
      .on_resume(Change::kFree)
      .hint_for({"dp_replicate_size", "data_parallel_replicate_degree"})
      .field("dp_shard", &ParallelismSection::dp_shard,
             "Ranks that share one copy of the model under `fsdp`; auto: all that `dp_replicate` "
             "leaves. Fewer communicate less, more take less memory each.",
             if_given<Auto>(between<int64_t>(1, kMostProcesses)))
      .on_resume(Change::kFree)
      .hint_for({"dp_shard_size", "data_parallel_shard_degree"});
}

Schema<FsdpSection> FsdpSection::schema() {
  return Schema<FsdpSection>()
      .field("stage", &FsdpSection::stage,
             "ZeRO stage. 0: every rank holds all. 1: optimizer state is sharded over ranks. 2: "
             "gradients too. 3: parameters too, gathered for each block's forward and backward "
             "pass, with 1.5 times the communication. Use the lowest stage that fits into memory.",
             between<int64_t>(0, 3))
      .on_resume(Change::kFree)
      .hint_for({"zero_stage"})
      .field("reshard_after_forward", &FsdpSection::reshard_after_forward,
             "Free a block's parameters after its forward pass; auto: at stage 3. false saves a "
             "gather per block and takes the memory of all parameters during a pass.")
      .on_resume(Change::kFree)
      .hint_for({"fsdp_reshard_after_forward"})
      .field("sync_each_batch", &FsdpSection::sync_each_batch,
             "Reduce the gradients of each micro-batch, not only of the last one; auto: at stages "
             "2 and 3. false communicates less and keeps whole gradients between micro-batches.")
      .on_resume(Change::kFree)
      .field(
          "param_dtype", &FsdpSection::param_dtype,
          "Type of the whole weights of blocks' linear layers and convolutions; auto: that of "
          "`mixed_precision`, with half the memory and traffic of fp32 and the same results, "
          "since autocast casts these weights anyway. fp32: for a plugin's model that uses such a "
          "weight outside its layer.")
      .on_resume(Change::kFree)
      .field("reduce_dtype", &FsdpSection::reduce_dtype,
             "Type of gradients in the reduction. 16-bit types halve its traffic and round sums.")
      .field(
          "min_num_params", &FsdpSection::min_num_params,
          "Blocks with fewer parameters join the root unit, which is gathered once per step: fewer "
          "small collectives, more memory.",
          at_least<int64_t>(0))
      .on_resume(Change::kFree)
      .hint_for({"fsdp_min_num_params"})
      .field("ignored", &FsdpSection::ignored,
             "Name patterns of parameters that every rank holds whole, such as `*.bias`.")
      .on_resume(Change::kFree)
      .hint_for({"ignored_modules", "fsdp_ignored_modules"})
      .field("state_dict", &FsdpSection::state_dict,
             "Checkpoints. sharded: each rank writes its rows into a file of its own, in PyTorch's "
             "distributed format, without communication; all ranks must see the run folder. full: "
             "rank 0 gathers everything, which takes its time and memory for the whole state, and "
             "writes model.safetensors and optimizer.bin. Both resume on any ranks and stage.")
      .on_resume(Change::kFree)
      .hint_for({"state_dict_type", "fsdp_state_dict_type"},
                "SHARDED_STATE_DICT>sharded|FULL_STATE_DICT>full|{}")
      .field(
          "offload", &FsdpSection::offload,
          "Where sharded state is while it is not used. cpu: in the host's memory, for models "
          "larger than a GPU's; without effect on the CPU. disk: in a scratch file per rank, for "
          "models larger than memory: adamw at stage 3 moves 40 bytes per parameter and step.")
      .on_resume(Change::kFree)
      .hint_for({"offload_params", "fsdp_offload_params", "cpu_offload", "offload_optimizer",
                 "offload_param"},
                "true>cpu|false>none|nvme>disk|{}")
      .field("offload_path", &FsdpSection::offload_path,
             "Folder of the scratch file, best on a local NVMe disk. auto: the working folder.")
      .on_resume(Change::kFree)
      .hint_for({"nvme_path", "offload_folder"});
}

FsdpDtype FsdpSection::param_dtype_under(MixedPrecision precision) const {
  if (param_dtype) return *param_dtype;
  switch (precision) {
    case MixedPrecision::kNo:
      return FsdpDtype::kFp32;
    case MixedPrecision::kFp16:
      return FsdpDtype::kFp16;
    case MixedPrecision::kBf16:
      return FsdpDtype::kBf16;
  }
  return FsdpDtype::kFp32;
}

Schema<LocalSgdSection> LocalSgdSection::schema() {
  return Schema<LocalSgdSection>().field("every", &LocalSgdSection::every,
                                         "Steps between averages of the ranks' weights, in place "
                                         "of a gradient all-reduce per step, such as "
                                         "`8 steps`.",
                                         if_given<std::optional>(whole_steps(1)));
}

Schema<AcceleratorSection> AcceleratorSection::schema() {
  auto sharing =
      Schema<AcceleratorSection>()
          .field("distributed_type", &AcceleratorSection::distributed_type, "Type of parallelism.")
          .on_resume(Change::kFree)
          .hint_for({"strategy", "deepspeed", "deepspeed_config", "ddp", "distributed"},
                    "multi_gpu")
          .field("num_processes", &AcceleratorSection::num_processes,
                 "Number of ranks over all machines; auto: set by torchrun, mpirun or srun, else "
                 "one per machine.",
                 if_given<Auto>(between<int64_t>(1, kMostProcesses)))
          .on_resume(Change::kFree)
          .hint_for({"num_gpus", "devices", "gpus", "n_gpu", "n_gpus", "num_devices", "world_size",
                     "nproc_per_node"})
          .field("num_machines", &AcceleratorSection::num_machines,
                 "Number of machines; start `accel-run` once on each.",
                 between<int64_t>(1, kMostProcesses))
          .on_resume(Change::kFree)
          .hint_for({"num_nodes", "nnodes"})
          .field("machine_rank", &AcceleratorSection::machine_rank, "Rank of this machine, from 0.",
                 between<int64_t>(0, kMostProcesses))
          .on_resume(Change::kFree)
          .hint_for({"node_rank"})
          .field("main_process_ip", &AcceleratorSection::main_process_ip,
                 "Address or host name of machine 0, reachable from the others.")
          .on_resume(Change::kFree)
          .hint_for({"master_addr"})
          .field("main_process_port", &AcceleratorSection::main_process_port,
                 "Rendezvous port of machine 0; auto, on one machine: a free port.",
                 if_given<Auto>(between<int64_t>(1, 65535)))
          .on_resume(Change::kFree)
          .hint_for({"master_port"})
          .field("max_restarts", &AcceleratorSection::max_restarts,
                 "Restarts from the last checkpoint after the failure of a rank.",
                 between<int64_t>(0, 1'000'000))
          .on_resume(Change::kFree)
          .field("timeout", &AcceleratorSection::timeout,
                 "Timeout of a collective, after which the run ends with exit code 6.", time_span())
          .on_resume(Change::kFree)
          .hint_for({"ddp_timeout"}, "{} s")
          .field("join_timeout", &AcceleratorSection::join_timeout,
                 "Timeout of the rendezvous at the start.", time_span())
          .on_resume(Change::kFree)
          .field("reduction", &AcceleratorSection::reduction,
                 "Order of gradient sums. bucketed: overlapped with backward. canonical: slower, "
                 "in a fixed order, bit-identical for any number of ranks.")
          .field("ddp", &AcceleratorSection::ddp, "Distributed data parallel training.")
          .field("local_sgd", &AcceleratorSection::local_sgd,
                 "Local SGD: ranks update independently and average weights periodically.")
          .field("sync_batch_norm", &AcceleratorSection::sync_batch_norm,
                 "Compute batch norm statistics over all ranks' samples.")
          .hint_for({"sync_batchnorm", "sync_bn"})
          .field("debug", &AcceleratorSection::debug,
                 "collectives: verify before each collective that all ranks call the same one; "
                 "slower.")
          .on_resume(Change::kFree);
  return with_computing(with_mesh(std::move(sharing))).check(&check_accelerator);
}

DeviceChoice AcceleratorSection::wanted_device() const {
  if (device != DeviceChoice::kAuto) return device;
  if (distributed_type == DistributedType::kMultiGpu) return DeviceChoice::kCuda;
  if (distributed_type == DistributedType::kMultiCpu) return DeviceChoice::kCpu;
  return device;
}

}  // namespace accel
