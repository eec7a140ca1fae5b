#include "train/loop/shards.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/share_region.h"

namespace accel {
namespace {

using Sharded = std::map<std::string, Parameter>;

/// The job's parameters of which this rank has a share, by name.
Sharded sharded_parameters(const Job& job) {
  Sharded out;
  for (const Parameter& item : job.parameters) {
    if (!item.is_replicated()) out.emplace(item.name, item);
  }
  return out;
}

/// Calls `visit(parameter, tensor)` for each tensor of the state that is divided as a parameter is:
/// the parameter itself, state of the optimizer in its form, and tensors of callbacks with its
/// name.
void for_each_shard(const Sharded& sharded, TrainState& state, bool whole,
                    const std::function<void(const Parameter&, at::Tensor&)>& visit) {
  const auto visit_if = [&](const Parameter& parameter, at::Tensor& tensor) {
    const Shape shape = whole ? parameter.global : parameter.local.sizes().vec();
    if (tensor.defined() && tensor.sizes() == at::IntArrayRef(shape)) visit(parameter, tensor);
  };
  for (Parameter& item : state.model) {
    const auto found = sharded.find(item.name);
    if (found != sharded.end()) visit(found->second, item.local);
  }
  for (OptimizerState::Group& group : state.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      const auto found = sharded.find(parameter.name);
      if (found == sharded.end()) continue;
      for (Parameter& slot : parameter.slots) visit_if(found->second, slot.local);
    }
  }
  for (auto& [name, section] : state.sections) {
    if (!name.starts_with("callbacks/")) continue;
    for (auto& [key, tensor] : section.tensors) {
      const auto found = sharded.find(key);
      if (found != sharded.end()) visit_if(found->second, tensor);
    }
  }
}

Parameter with_tensor(const Parameter& like, const at::Tensor& tensor) {
  return {like.name, tensor, like.global, like.placements};
}

TensorRegion own_region(const Parameter& parameter, const Mesh& mesh) {
  ShareRegion own = share_region(parameter, mesh);
  return {std::move(own.offsets), std::move(own.sizes)};
}

/// Whether this rank writes its share: of equal ones, those of replicas and empty ones, one rank
/// does.
bool writes_share(const Parameter& parameter, const Mesh& mesh) {
  const Replica replica = replica_of(parameter, mesh);
  return writes_whole({.rank = replica.index, .ranks = replica.count, .parameters = {}},
                      parameter.name) &&
         !repeats_empty_share(parameter, mesh);
}

}  // namespace

void gather_shards(const Job& job, TrainState& state) {
  const Sharded sharded = sharded_parameters(job);
  if (sharded.empty()) return;
  for_each_shard(sharded, state, false, [&](const Parameter& parameter, at::Tensor& tensor) {
    const at::Tensor whole = gather_whole(with_tensor(parameter, tensor), job.mesh);
    if (job.is_main) tensor = whole;
  });
  for (Parameter& item : state.model) item = {item.name, item.local};
}

bool saves_shards(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  return (section.fsdp.stage > 0 || section.parallelism.pp > 1) &&
         section.fsdp.state_dict == StateDictType::kSharded;
}

std::shared_ptr<const ShardLayout> shard_layout(const Job& job) {
  auto layout = std::make_shared<ShardLayout>();
  layout->rank = job.rank;
  layout->ranks = job.num_ranks;
  for (const Parameter& item : job.parameters) {
    ParameterShard shard = {item.shape(), own_region(item, job.mesh), !item.is_replicated()};
    shard.is_written =
        item.is_replicated() ? writes_whole(*layout, item.name) : writes_share(item, job.mesh);
    layout->parameters.emplace(item.name, std::move(shard));
  }
  return layout;
}

RegionOf region_of(const Job& job) {
  return [&job, sharded = sharded_parameters(job)](
             const std::string& name, const Shape& whole) -> std::optional<TensorRegion> {
    const auto found = sharded.find(name);
    if (found == sharded.end() || found->second.global != whole) return std::nullopt;
    return own_region(found->second, job.mesh);
  };
}

void take_shards(const Job& job, TrainState& state) {
  const Sharded sharded = sharded_parameters(job);
  if (sharded.empty()) return;
  for (const Parameter& item : state.model) {
    const auto found = sharded.find(item.name);
    if (found == sharded.end()) continue;
    const Shape saved = item.global.empty() ? item.local.sizes().vec() : item.global;
    if (saved == found->second.global) continue;
    throw CheckpointError(text("'{}' is {} in the model but {} in the checkpoint", item.name,
                               to_string(found->second.global), to_string(saved)));
  }
  for_each_shard(sharded, state, true, [&](const Parameter& parameter, at::Tensor& tensor) {
    if (tensor.sizes() == parameter.local.sizes()) return;
    tensor = share_of(tensor, parameter.placements, job.mesh);
  });
}

int64_t bytes_of_other_shards(const Job& job, const TrainState& state) {
  int64_t bytes = 0;
  TrainState copy = state;  // shares the tensors
  for_each_shard(sharded_parameters(job), copy, false,
                 [&](const Parameter& parameter, at::Tensor& tensor) {
                   const auto size = static_cast<int64_t>(tensor.element_size());
                   bytes += (parameter.numel() - tensor.numel()) * size;
                 });
  return bytes;
}

}  // namespace accel
