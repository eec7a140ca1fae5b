#include "runner/job/accelerator_section.h"

#include <string>
#include <utility>

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
          "a number of steps, at least " + std::to_string(least), ""};
}

bool is_list_of_ids(const std::string& text) {
  if (text == "all") return true;
  bool digit = false;  // the last character is one
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

/// The checks below go by value, not by presence: a resolved recipe names every option.
class Check {
 public:
  Check(const Node& node, Reading& reading) : node_(node), reading_(reading) {}

  void error(const char* key, const std::string& message, const std::string& hint) {
    const Node::Entry* entry = node_.find(key);
    // A section is named by its key.
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
  check.error("grad_scaler", "'grad_scaler' changes nothing without mixed_precision: fp16",
              "leave it out, or train in fp16");
}

void check_machines(const AcceleratorSection& section, Check& check) {
  const int64_t machines = section.num_machines;
  if (section.machine_rank >= machines) {
    check.error("machine_rank",
                "'machine_rank' is " + std::to_string(section.machine_rank) + ", but there are " +
                    std::to_string(machines) + " machines",
                "machines are counted from 0");
  }
  if (section.num_processes && *section.num_processes % machines != 0) {
    check.error("num_processes",
                std::to_string(*section.num_processes) + " processes cannot be shared alike by " +
                    std::to_string(machines) + " machines",
                "'num_processes' counts those of all machines");
  }
  if (machines > 1 && section.main_process_ip.empty()) {
    check.error("num_machines", "'main_process_ip' is missing",
                "give the address of machine 0, the same on all machines");
  }
  if (machines > 1 && !section.main_process_port) {
    check.error("num_machines", "'main_process_port' is missing",
                "give a port that is free on machine 0, the same on all machines, such as 29500");
  }
  if (machines == 1 && !section.main_process_ip.empty()) {
    check.error("main_process_ip", "'main_process_ip' changes nothing on one machine",
                "leave it out, or set 'num_machines'");
  }
}

void check_combinations(const AcceleratorSection& section, Check& check) {
  if (section.distributed_type == DistributedType::kNo && section.num_processes.value_or(1) > 1) {
    check.error("distributed_type",
                "'distributed_type' is no, but there are " +
                    std::to_string(*section.num_processes) + " processes",
                "leave it at auto, or set 'num_processes' to 1");
  }
  if (section.reduction == Reduction::kCanonical && section.ddp.comm_hook != CommHook::kNo) {
    check.error("reduction", "'reduction' canonical cannot keep its promise with 'ddp.comm_hook'",
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
    check.error("gpu_ids", "'gpu_ids' changes nothing on the CPU", "leave it out");
  }
}

void check_local_sgd(const AcceleratorSection& section, Check& check) {
  if (!section.local_sgd.every) return;
  const std::string hint = "leave one of the two out";
  if (section.reduction == Reduction::kCanonical) {
    check.error("local_sgd", "'local_sgd' sums no gradients, in canonical order or any other",
                hint);
  }
  if (section.ddp.comm_hook != CommHook::kNo) {
    check.error("local_sgd", "'local_sgd' sends no gradients that 'ddp.comm_hook' could change",
                hint);
  }
  if (section.mixed_precision == MixedPrecision::kFp16) {
    check.error("local_sgd", "'local_sgd' in fp16: each rank would skip other updates",
                "train in bf16, or leave 'local_sgd' out");
  }
}

void check_power_sgd(const AcceleratorSection& section, Check& check) {
  const bool used = section.ddp.comm_hook == CommHook::kPowerSgd;
  if (used && section.mixed_precision == MixedPrecision::kFp16) {
    check.error("ddp", "'comm_hook' power_sgd keeps errors of gradients, which fp16 scales anew",
                "train in bf16, or use another 'comm_hook'");
  }
  if (!used && !(section.ddp.power_sgd == PowerSgdSection())) {
    check.error("ddp", "'power_sgd' changes nothing without comm_hook: power_sgd",
                "leave it out, or set 'comm_hook'");
  }
}

void check_accelerator(const AcceleratorSection& section, const Node& node, Reading& reading) {
  Check check(node, reading);
  check_scaler(section, check);
  check_machines(section, check);
  check_combinations(section, check);
  check_device(section, check);
  check_local_sgd(section, check);
  check_power_sgd(section, check);
}

/// How and where one rank computes.
Schema<AcceleratorSection> with_computing(Schema<AcceleratorSection> schema) {
  return std::move(schema)
      .field("mixed_precision", &AcceleratorSection::mixed_precision,
             "Type that autocast computes in.")
      .field("grad_scaler", &AcceleratorSection::grad_scaler,
             "How the loss is scaled under `fp16`, the only precision that needs it.")
      .field(
          "device", &AcceleratorSection::device,
          "Where to compute. cuda: a GPU of NVIDIA's for each rank; auto: so where there is one.")
      .field("gpu_ids", &AcceleratorSection::gpu_ids,
             "The GPUs of this machine to use, such as `0,1`.", list_of_ids())
      .on_resume(Change::kFree)
      .field("num_cpu_threads_per_process", &AcceleratorSection::num_cpu_threads_per_process,
             "Threads of one rank; auto: this machine's cores, shared by its ranks.",
             if_given<Auto>(between<int64_t>(1, 1024)))
      .field("kernels", &AcceleratorSection::kernels,
             "fused: faster loops of this program where it has them, whose results differ from "
             "PyTorch's in the last digits. reference: PyTorch's own operators alone.");
}

}  // namespace

Schema<DdpSection> DdpSection::schema() {
  return Schema<DdpSection>()
      .field("bucket_cap_mb", &DdpSection::bucket_cap_mb,
             "Gradients travel together in buckets of at most so many MiB.",
             between<int64_t>(1, 4096))
      .field("broadcast_buffers", &DdpSection::broadcast_buffers,
             "Give all ranks the buffers of rank 0, such as running statistics, before each step.")
      .field("comm_hook", &DdpSection::comm_hook,
             "What gradients are turned into on their way between ranks.")
      .field("power_sgd", &DdpSection::power_sgd, "How comm_hook power_sgd compresses.");
}

Schema<PowerSgdSection> PowerSgdSection::schema() {
  return Schema<PowerSgdSection>()
      .field("rank", &PowerSgdSection::rank,
             "Columns of the two thin matrices that stand for a gradient.",
             between<int64_t>(1, 1024))
      .field("start", &PowerSgdSection::start,
             "So many first steps are not compressed: gradients change most then.", whole_steps(2))
      .field("min_compression_rate", &PowerSgdSection::min_compression_rate,
             "A gradient that would not shrink by more than this travels as it is.",
             more_than(0.0));
}

Schema<LocalSgdSection> LocalSgdSection::schema() {
  return Schema<LocalSgdSection>().field(
      "every", &LocalSgdSection::every,
      "Ranks sum no gradients, but average their weights after every so many steps, such as "
      "`8 steps`.",
      if_given<std::optional>(whole_steps(1)));
}

Schema<AcceleratorSection> AcceleratorSection::schema() {
  auto sharing =
      Schema<AcceleratorSection>()
          .field("distributed_type", &AcceleratorSection::distributed_type,
                 "How processes share the work.")
          .on_resume(Change::kFree)
          .field("num_processes", &AcceleratorSection::num_processes,
                 "Ranks, over all machines; auto: as torchrun, mpirun or srun say, or else one for "
                 "each machine.",
                 if_given<Auto>(between<int64_t>(1, kMostProcesses)))
          .on_resume(Change::kFree)
          .field("num_machines", &AcceleratorSection::num_machines,
                 "Machines; start `accel-run` once on each.", between<int64_t>(1, kMostProcesses))
          .on_resume(Change::kFree)
          .field("machine_rank", &AcceleratorSection::machine_rank,
                 "Which machine this is, from 0.", between<int64_t>(0, kMostProcesses))
          .on_resume(Change::kFree)
          .field("main_process_ip", &AcceleratorSection::main_process_ip,
                 "Address or name of machine 0, as the others reach it.")
          .on_resume(Change::kFree)
          .field("main_process_port", &AcceleratorSection::main_process_port,
                 "Port of machine 0 that ranks meet at; auto: a free one, on one machine.",
                 if_given<Auto>(between<int64_t>(1, 65535)))
          .on_resume(Change::kFree)
          .field("max_restarts", &AcceleratorSection::max_restarts,
                 "How often to start again from the last checkpoint when a rank dies.",
                 between<int64_t>(0, 1'000'000))
          .on_resume(Change::kFree)
          .field("timeout", &AcceleratorSection::timeout,
                 "How long a rank waits for the others before the run ends with exit code 6.",
                 time_span())
          .on_resume(Change::kFree)
          .field("join_timeout", &AcceleratorSection::join_timeout,
                 "How long the start waits for all ranks to join.", time_span())
          .on_resume(Change::kFree)
          .field("reduction", &AcceleratorSection::reduction,
                 "How gradients are summed. bucketed: while backward still runs. canonical: in one "
                 "order for any number of ranks, so that all give the same bits.")
          .field("ddp", &AcceleratorSection::ddp, "Data parallel training.")
          .field("local_sgd", &AcceleratorSection::local_sgd,
                 "Each rank makes updates of its own, and weights are averaged now and then.")
          .field("sync_batch_norm", &AcceleratorSection::sync_batch_norm,
                 "Batch norm by the mean and variance of all ranks' samples.")
          .field("debug", &AcceleratorSection::debug,
                 "collectives: check before each one that all ranks mean the same.")
          .on_resume(Change::kFree);
  return with_computing(std::move(sharing)).check(&check_accelerator);
}

DeviceChoice AcceleratorSection::wanted_device() const {
  if (device != DeviceChoice::kAuto) return device;
  if (distributed_type == DistributedType::kMultiGpu) return DeviceChoice::kCuda;
  if (distributed_type == DistributedType::kMultiCpu) return DeviceChoice::kCpu;
  return device;
}

}  // namespace accel
