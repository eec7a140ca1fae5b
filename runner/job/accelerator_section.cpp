#include "runner/job/accelerator_section.h"

#include <string>

namespace accel {
namespace {

constexpr int64_t kMostProcesses = 65536;

Rule<Duration> time_span() {
  return {[](const Duration& v) { return v.unit == Duration::Unit::kSeconds && v.value >= 1; },
          "a time of at least a second, such as '10 min'", ""};
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

void check_accelerator(const AcceleratorSection& section, const Node& node, Reading& reading) {
  Check check(node, reading);
  check_scaler(section, check);
  check_machines(section, check);
  check_combinations(section, check);
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
             "What gradients are turned into on their way between ranks.");
}

Schema<AcceleratorSection> AcceleratorSection::schema() {
  return Schema<AcceleratorSection>()
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
      .field("machine_rank", &AcceleratorSection::machine_rank, "Which machine this is, from 0.",
             between<int64_t>(0, kMostProcesses))
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
      .field("debug", &AcceleratorSection::debug,
             "collectives: check before each one that all ranks mean the same.")
      .on_resume(Change::kFree)
      .field("mixed_precision", &AcceleratorSection::mixed_precision,
             "Type that autocast computes in.")
      .field("grad_scaler", &AcceleratorSection::grad_scaler,
             "How the loss is scaled under `fp16`, the only precision that needs it.")
      .field("device", &AcceleratorSection::device, "Where to compute.")
      .field("num_cpu_threads_per_process", &AcceleratorSection::num_cpu_threads_per_process,
             "Threads of one rank; auto: this machine's cores, shared by its ranks.",
             if_given<Auto>(between<int64_t>(1, 1024)))
      .check(&check_accelerator);
}

}  // namespace accel
