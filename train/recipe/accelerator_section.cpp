#include "train/recipe/accelerator_section.h"

#include <string>
#include <utility>

#include "core/base/text.h"
#include "train/recipe/section_check.h"

namespace accel {
namespace {

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

void check_scaler(const AcceleratorSection& section, SectionCheck& check) {
  if (section.mixed_precision == MixedPrecision::kFp16 || section.grad_scaler == ScalerOptions{}) {
    return;
  }
  check.error("grad_scaler", "'grad_scaler' has no effect without mixed_precision: fp16",
              "leave it out, or train in fp16");
}

void check_machines(const AcceleratorSection& section, SectionCheck& check) {
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
  if (section.min_machines && *section.min_machines > machines) {
    check.error(
        "min_machines",
        text("'min_machines' is {}, but 'num_machines' is {}", *section.min_machines, machines),
        "'num_machines' is the most of an elastic run");
  } else if (section.min_machines && *section.min_machines < machines &&
             section.max_restarts == 0) {
    check.error("min_machines", "'min_machines' has no effect without restarts",
                "set 'max_restarts'");
  }
  if (machines == 1 && !section.main_process_ip.empty()) {
    check.error("main_process_ip", "'main_process_ip' has no effect on one machine",
                "leave it out, or set 'num_machines'");
  }
}

void check_combinations(const AcceleratorSection& section, SectionCheck& check) {
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

void check_device(const AcceleratorSection& section, SectionCheck& check) {
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

void check_local_sgd(const AcceleratorSection& section, SectionCheck& check) {
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

void check_power_sgd(const AcceleratorSection& section, SectionCheck& check) {
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

void check_accelerator(const AcceleratorSection& section, const Node& node, Reading& reading) {
  SectionCheck check(node, reading);
  check_scaler(section, check);
  check_fp8_section(section, check);
  check_machines(section, check);
  check_combinations(section, check);
  check_device(section, check);
  check_local_sgd(section, check);
  check_power_sgd(section, check);
  check_fsdp_section(section, check);
  check_tensor_parallel(section, check);
  check_context_parallel(section, check);
  check_pipeline_section(section, check);
  check_expert_parallel(section, check);
}

/// Device, precision, threads and kernels of one rank.
Schema<AcceleratorSection> with_computing(Schema<AcceleratorSection> schema) {
  return std::move(schema)
      .field(
          "mixed_precision", &AcceleratorSection::mixed_precision,
          "Autocast type of matrix products. bf16 and fp16 are faster and take less memory; "
          "fp16 needs loss scaling. fp8: as bf16, with linear layers in fp8, for GPUs of compute "
          "capability 8.9 and later; emulated, slowly, on the CPU.")
      .hint_for({"precision", "dtype", "torch_dtype"},
                "16>fp16|16-mixed>fp16|float16>fp16|16-true>fp16|bf16-mixed>bf16|bf16-true>bf16|"
                "bfloat16>bf16|32>no|32-true>no|float32>no|fp32>no|{}")
      .hint_for({"fp16"}, "fp16")
      .hint_for({"bf16", "amp", "use_amp"}, "bf16")
      .field("grad_scaler", &AcceleratorSection::grad_scaler, "Loss scaling under `fp16`.")
      .field("fp8", &AcceleratorSection::fp8, "Linear layers under `fp8`.")
      .hint_for({"fp8_config", "float8"}, "{recipe: tensorwise}")
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
             "digits. reference: PyTorch's operators only.")
      .field(
          "mkl_instructions", &AcceleratorSection::mkl_instructions,
          "Kernels of MKL's matrix products. auto: those for Intel processors, on every processor "
          "with AVX2 or AVX-512; native: MKL's own choice, as in PyTorch, with other kernels and "
          "without AVX-512 on AMD processors. native is slower there, but gives PyTorch's last "
          "digits; `kernels: reference` implies it.")
      .field("tf32", &AcceleratorSection::tf32,
             "TensorFloat-32 for float32 products on GPUs of compute capability 8.0 and later, "
             "which are faster and round their factors to 10 bits. auto: for convolutions only, as "
             "in PyTorch; true: for matrix products too; false: for neither.")
      .hint_for({"allow_tf32"})
      .field(
          "cuda_graph", &AcceleratorSection::cuda_graph,
          "Record the passes of a step as a CUDA graph. Launching it costs the host no time, so "
          "that small models train faster; it takes the memory of a second step. For samples "
          "of one shape, on one GPU, without gradient accumulation, activation checkpointing and "
          "experts. auto: if the job allows it and the GPU has the memory.")
      .hint_for({"cuda_graphs"});
}

/// More than no bytes.
Rule<std::optional<ByteSize>> some_memory() {
  const Rule<ByteSize> rule = {[](const ByteSize& size) { return size.bytes > 0; },
                               "a size, such as '4 GiB'", ""};
  return if_given<std::optional>(rule);
}

/// Sizes of the mesh, and what is sharded over it.
Schema<AcceleratorSection> with_mesh(Schema<AcceleratorSection> schema) {
  return std::move(schema)
      .field("parallelism", &AcceleratorSection::parallelism,
             "Sizes of the mesh of ranks; their product is the number of ranks.")
      .hint_for({"parallelism_config"}, "{dp_shard: auto}")
      .field("pipeline", &AcceleratorSection::pipeline,
             "Schedule and stages of the ranks of `parallelism.pp`.")
      .field("fsdp", &AcceleratorSection::fsdp,
             "Fully sharded data parallel training (FSDP, ZeRO): ranks hold rows of "
             "parameters, gradients and optimizer state.")
      .hint_for({"fsdp_config"}, "{stage: 3}")
      .field("max_memory", &AcceleratorSection::max_memory,
             "Bytes of frozen weights in memory, such as `4 GiB`, of a model with a LoRA adapter. "
             "Blocks that do not fit are streamed from the folder of `model.weights`, in the "
             "forward pass and again in the backward pass, which computes blocks anew. "
             "Checkpoints have the trained weights only. none: all weights are in memory.",
             some_memory());
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

Schema<LocalSgdSection> LocalSgdSection::schema() {
  return Schema<LocalSgdSection>().field("every", &LocalSgdSection::every,
                                         "Steps between averages of the ranks' weights, in place "
                                         "of a gradient all-reduce per step, such as "
                                         "`8 steps`.",
                                         if_given<std::optional>(whole_steps(1)));
}

/// Restarts after the failure of a rank or machine.
Schema<AcceleratorSection> with_restarts(Schema<AcceleratorSection> schema) {
  return std::move(schema)
      .field("min_machines", &AcceleratorSection::min_machines,
             "Machines with which an elastic run may train after others were lost; auto: all. "
             "The batch stays, each rank's share grows. Requires `max_restarts`.",
             if_given<Auto>(between<int64_t>(1, kMostProcesses)))
      .on_resume(Change::kFree)
      .field("max_restarts", &AcceleratorSection::max_restarts,
             "Restarts of all ranks from the last checkpoint after the failure of a rank or "
             "machine. Counted anew after each new checkpoint.",
             between<int64_t>(0, 1'000'000))
      .on_resume(Change::kFree)
      .field("monitor_interval", &AcceleratorSection::monitor_interval,
             "Interval at which the launchers check their ranks and each other. Shorter: "
             "failures are noticed earlier, for more messages between machines.",
             {[](const Duration& v) {
                return v.unit == Duration::Unit::kSeconds && v.value >= 0.05 && v.value <= 60;
              },
              "a time from 0.05 s to 60 s", ""})
      .on_resume(Change::kFree);
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
          .field("timeout", &AcceleratorSection::timeout,
                 "Timeout of a collective, after which the run ends with exit code 6.", time_span())
          .on_resume(Change::kFree)
          .hint_for({"ddp_timeout"}, "{} s")
          .field("join_timeout", &AcceleratorSection::join_timeout,
                 "Timeout of the rendezvous at the start.", time_span())
          .on_resume(Change::kFree)
          .field("cpu_backend", &AcceleratorSection::cpu_backend,
                 "Backend of collectives of CPU tensors. shared_memory: memory that the ranks of a "
                 "machine share, with much shorter latency. gloo: sockets. auto: shared_memory in "
                 "groups of ranks on one machine, else gloo. Set gloo to compare the two.")
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
  return with_computing(with_mesh(with_restarts(std::move(sharing)))).check(&check_accelerator);
}

DeviceChoice AcceleratorSection::wanted_device() const {
  if (device != DeviceChoice::kAuto) return device;
  if (distributed_type == DistributedType::kMultiGpu) return DeviceChoice::kCuda;
  if (distributed_type == DistributedType::kMultiCpu) return DeviceChoice::kCpu;
  return device;
}

}  // namespace accel
