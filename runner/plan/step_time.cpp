#include "runner/plan/step_time.h"

#include <algorithm>
#include <string>
#include <string_view>

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

/// Computation waits for activations. Their purposes say so, because gradients may be summed over
/// the same ranks: those of cp and ep are data parallel too.
bool is_of_layers(const std::string& purpose) {
  static constexpr std::string_view kEnds[] = {" of tensor parallelism", " of context parallelism",
                                               " of experts", "counts of tokens"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return purpose.ends_with(end); });
}

Use use_of(const MeshSizes& mesh, const TrafficKey& key) {
  const GroupShape& group = key.group;
  if (is_of_layers(key.purpose) || group.stride * group.ranks <= mesh.tensor) return Use::kLayers;
  const int64_t in_stage = mesh.tensor * mesh.gradients();
  return group.stride >= in_stage && mesh.pipeline > 1 ? Use::kPipeline : Use::kData;
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
    const Use use = use_of(plan.mesh, key);
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

/// Of matrix products, convolutions and attention.
double product_seconds(const Plan& plan, const Hardware& hardware, const ComputeMode& mode) {
  const double peak = mode.is_16bit ? hardware.flops_16bit : hardware.flops_fp32;
  return plan.rank_flops / (peak * kMatrixShare);
}

/// A backward pass takes twice the time of a forward one; recomputation adds a forward pass.
double forward_share(const ComputeMode& mode) {
  return mode.recomputes ? 1.0 / 4 : 1.0 / 3;
}

/// Idle seconds beside the computation and the layers' communication of `time`.
double bubble_of(const Plan& plan, const StepTime& time, double message, const ComputeMode& mode) {
  if (!plan.pipeline) return 0;
  const double forward = forward_share(mode);
  const double pass = (time.compute + time.layers) /
                      static_cast<double>(plan.batches.accumulation);  // of rank 0's stages
  std::vector<PassCosts> costs;
  for (const double share : plan.pipeline->relative_costs) {
    costs.push_back({.forward = share * pass * forward,
                     .backward_input = share * pass * (1 - 2 * forward),
                     .backward_weight = share * pass * forward});
  }
  return simulate(plan.pipeline->schedule, costs, message).makespan() - time.compute - time.layers;
}

}  // namespace

ComputeMode compute_mode(const RecipeOptions& recipe) {
  return {.is_16bit = recipe.accelerator.mixed_precision != MixedPrecision::kNo,
          .recomputes = recipe.train.activation_checkpointing == ActivationCheckpointing::kBlocks};
}

StepTime estimate_step(const Plan& plan, const Hardware& hardware, const ComputeMode& mode) {
  const double bandwidth = hardware.memory_bandwidth * kMemoryShare;
  const Communication sends = communication_of(plan, hardware);
  StepTime time;
  time.compute = product_seconds(plan, hardware, mode) + plan.moved_bytes / bandwidth;
  time.layers = sends.layers;
  time.bubble = bubble_of(plan, time, sends.message, mode);
  const double backward = (1 - forward_share(mode)) * (time.compute + time.layers) /
                          static_cast<double>(plan.batches.accumulation);  // of a micro-batch
  time.data_parallel = std::max(0.0, sends.repeated - time.compute - time.layers) +
                       std::max(0.0, sends.once - backward);
  const PlannedMemory& memory = plan.memory;
  time.optimizer =
      static_cast<double>(2 * memory.weights + memory.gradients + 2 * memory.optimizer) / bandwidth;
  return time;
}

double least_step_seconds(const Plan& plan, const Hardware& hardware, const ComputeMode& mode) {
  StepTime time;
  time.compute = product_seconds(plan, hardware, mode);
  for (const auto& [key, sent] : plan.traffic) {
    if (is_of_layers(key.purpose)) time.layers += seconds_of(sent, key.group, hardware);
  }
  time.bubble = bubble_of(plan, time, communication_of(plan, hardware).message, mode);
  return time.total();
}

double device_bytes(const Plan& plan) {
  const auto bytes = [](const PlannedMemory& memory) {
    return memory.state() + memory.activations + memory.fragmentation + memory.others;
  };
  // The rank with the most may have it in its host's memory.
  return static_cast<double>(std::max(bytes(plan.memory), bytes(plan.rank_0_memory)));
}

double device_memory(const Hardware& hardware) {
  return hardware.memory - kDriverBytes;
}

}  // namespace accel
