#include "runner/plan/step_time.h"

#include <algorithm>

#include "parallel/pipeline/simulate.h"

namespace accel {
namespace {

// Shares of the data sheet's rates that large operations reach, in published training runs.
constexpr double kMatrixShare = 0.7, kMemoryShare = 0.85, kLinkShare = 0.75;
// Seconds for a message's next hop.
constexpr double kLinkLatency = 3e-6, kNetworkLatency = 10e-6;
constexpr double kDriverBytes = 2.0 * (1 << 30);

/// Of a ring through all ranks of the group, with a channel for each rank of a machine.
double seconds_of(const Sent& sent, const GroupShape& group, const Hardware& hardware) {
  const int64_t here =
      std::clamp<int64_t>(hardware.ranks_per_machine / group.stride, 1, group.ranks);
  const int64_t machines = (group.ranks + here - 1) / here;
  const auto bytes = static_cast<double>(sent.bytes);
  double seconds = here > 1 ? bytes / (hardware.link * kLinkShare) : 0;
  double latency = static_cast<double>(here - 1) * kLinkLatency;
  if (machines > 1) {
    const double network = hardware.network * kLinkShare * static_cast<double>(here);
    seconds = std::max(seconds, bytes / network);
    latency += static_cast<double>(machines - 1) * kNetworkLatency;
  }
  return seconds + latency * static_cast<double>(sent.calls);
}

enum class Use { kLayers, kPipeline, kData };

/// By the axes along which the group's ranks differ: data parallel axes lie outside tensor and
/// context parallel ones.
Use use_of(const MeshSizes& mesh, const GroupShape& group) {
  const int64_t in_layers = mesh.context * mesh.tensor;
  if (group.stride < in_layers) return group.ranks <= in_layers ? Use::kLayers : Use::kData;
  return group.stride >= in_layers * mesh.data() && mesh.pipeline > 1 ? Use::kPipeline : Use::kData;
}

struct Communication {
  double layers = 0;
  double message = 0;   ///< a pipeline's, of the activations of a micro-batch
  double repeated = 0;  ///< data parallel axes, with each micro-batch
  double once = 0;      ///< data parallel axes, once per step
};

Communication communication_of(const Plan& plan, const Hardware& hardware) {
  Communication out;
  const auto batches = plan.batches.accumulation;
  for (const auto& [key, sent] : plan.traffic) {
    const Use use = use_of(plan.mesh, key.group);
    if (use == Use::kLayers) {
      out.layers += seconds_of(sent, key.group, hardware);
    } else if (use == Use::kPipeline) {
      const auto calls = static_cast<double>(std::max<int64_t>(1, sent.calls));
      const bool near = key.group.stride < hardware.ranks_per_machine;
      const double rate = (near ? hardware.link : hardware.network) * kLinkShare;
      out.message = std::max(out.message, static_cast<double>(sent.bytes) / calls / rate +
                                              (near ? kLinkLatency : kNetworkLatency));
    } else {
      const auto found = plan.micro_batch_traffic.find(key);
      const Sent each = found == plan.micro_batch_traffic.end() ? Sent{} : found->second;
      const Sent all = {each.bytes * batches, each.calls * batches};
      out.repeated += seconds_of(all, key.group, hardware);
      out.once += seconds_of({sent.bytes - all.bytes, sent.calls - all.calls}, key.group, hardware);
    }
  }
  return out;
}

}  // namespace

ComputeMode compute_mode(const RecipeOptions& recipe) {
  return {.is_16bit = recipe.accelerator.mixed_precision != MixedPrecision::kNo,
          .recomputes = recipe.train.activation_checkpointing != ActivationCheckpointing::kNone};
}

StepTime estimate_step(const Plan& plan, const Hardware& hardware, const ComputeMode& mode) {
  const double peak = mode.is_16bit ? hardware.flops_16bit : hardware.flops_fp32;
  const double bandwidth = hardware.memory_bandwidth * kMemoryShare;
  const Communication sends = communication_of(plan, hardware);
  const auto batches = static_cast<double>(plan.batches.accumulation);
  StepTime time;
  time.compute = plan.rank_flops / (peak * kMatrixShare) + plan.moved_bytes / bandwidth;
  time.layers = sends.layers;
  // A backward pass takes twice the time of a forward one; recomputation adds a forward pass.
  const double forward = mode.recomputes ? 1.0 / 4 : 1.0 / 3;
  const double backward =
      (1 - forward) * (time.compute + time.layers) / batches;  // of a micro-batch
  if (plan.pipeline) {
    const double pass = (time.compute + time.layers) / batches;  // of rank 0's stages
    std::vector<PassCosts> costs;
    for (const double share : plan.pipeline->relative_costs) {
      costs.push_back({.forward = share * pass * forward,
                       .backward_input = share * pass * (1 - 2 * forward),
                       .backward_weight = share * pass * forward});
    }
    const double makespan = simulate(plan.pipeline->schedule, costs, sends.message).makespan();
    time.bubble = makespan - time.compute - time.layers;
  }
  time.data_parallel = std::max(0.0, sends.repeated - time.compute - time.layers) +
                       std::max(0.0, sends.once - backward);
  const PlannedMemory& memory = plan.memory;
  time.optimizer =
      static_cast<double>(2 * memory.weights + memory.gradients + 2 * memory.optimizer) / bandwidth;
  return time;
}

double device_bytes(const Plan& plan) {
  const PlannedMemory& memory = plan.memory;
  return static_cast<double>(memory.state() + memory.activations + memory.fragmentation +
                             memory.others);
}

double device_memory(const Hardware& hardware) {
  return hardware.memory - kDriverBytes;
}

}  // namespace accel
