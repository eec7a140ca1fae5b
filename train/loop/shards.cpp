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

/// The placements of a tensor of this whole shape that is divided as a parameter is: the parameter
/// itself, state of its optimizer, or a tensor of a callback.
Parameter divided_as(const Parameter& parameter, Shape whole) {
  std::vector<Placement> placements = state_placements(whole, parameter);
  return {parameter.name, {}, std::move(whole), std::move(placements)};
}

/// The whole shape of a tensor of `slot`, of which this rank holds its part or, if `is_whole`, that
/// or all.
Shape whole_shape(const Parameter& parameter, const Parameter& slot, bool is_whole) {
  if (!slot.global.empty()) return slot.global;
  const bool is_share = !is_whole && slot.local.sizes() == parameter.local.sizes();
  return is_share ? parameter.global : slot.local.sizes().vec();
}

using Visit = std::function<void(const Parameter& divided, at::Tensor& tensor)>;

/// Calls `visit` for the tensors of the optimizer's state that are divided over ranks.
void for_each_slot(const Sharded& sharded, OptimizerState& state, bool is_whole,
                   const Visit& visit) {
  for (OptimizerState::Group& group : state.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      const auto found = sharded.find(parameter.name);
      if (found == sharded.end()) continue;
      for (Parameter& slot : parameter.slots) {
        if (!slot.local.defined()) continue;
        const Parameter divided =
            divided_as(found->second, whole_shape(found->second, slot, is_whole));
        if (!divided.is_replicated()) visit(divided, slot.local);
      }
    }
  }
}

/// Calls `visit` for each tensor of the state that is divided over ranks: parameters, state of the
/// optimizer, and tensors of callbacks with the name and form of a parameter. `is_whole`: of a
/// state that was read, whose tensors may be whole.
void for_each_shard(const Sharded& sharded, TrainState& state, bool is_whole, const Visit& visit) {
  for (Parameter& item : state.model) {
    const auto found = sharded.find(item.name);
    if (found != sharded.end()) visit(found->second, item.local);
  }
  for_each_slot(sharded, state.optimizer, is_whole, visit);
  for (auto& [name, section] : state.sections) {
    if (!name.starts_with("callbacks/")) continue;
    for (auto& [key, tensor] : section.tensors) {
      const auto found = sharded.find(key);
      if (found == sharded.end() || !tensor.defined()) continue;
      const Parameter& parameter = found->second;
      const Shape shape = is_whole ? parameter.global : parameter.local.sizes().vec();
      if (tensor.sizes() == at::IntArrayRef(shape)) visit(parameter, tensor);
    }
  }
}

Parameter with_tensor(const Parameter& like, const at::Tensor& tensor) {
  return {like.name, tensor, like.global, like.placements};
}

/// One unless a placement has blocks.
std::vector<TensorRegion> own_regions(const Parameter& parameter, const Mesh& mesh) {
  std::vector<TensorRegion> out;
  for (ShareRegion& own : share_regions(parameter, mesh)) {
    out.push_back({std::move(own.offsets), std::move(own.sizes)});
  }
  return out;
}

/// Whether this rank writes its share: of equal ones, those of replicas and empty ones, one rank
/// does.
bool writes_share(const Parameter& parameter, const Mesh& mesh) {
  const Replica replica = replica_of(parameter, mesh);
  return writes_whole({.rank = replica.index, .ranks = replica.count, .parameters = {}},
                      parameter.name) &&
         !repeats_empty_share(parameter, mesh);
}

ParameterShard shard_of(const Parameter& parameter, const Shape& sizes, const Mesh& mesh) {
  return {parameter.shape(), own_regions(parameter, mesh), sizes, !parameter.is_replicated(),
          writes_share(parameter, mesh)};
}

/// Adds the state of the optimizer that lacks a divided dimension of its parameter.
void add_slots(const Job& job, const OptimizerState& state, ShardLayout& layout) {
  for (const OptimizerState::Group& group : state.groups) {
    for (const auto& [name, slots] : group.parameters) {
      for (const Parameter& slot : slots) {
        if (slot.is_replicated() || layout.parameters.at(name).whole == slot.global) continue;
        const Parameter named = {name + "." + slot.name, {}, slot.global, slot.placements};
        layout.slots.emplace(named.name, shard_of(named, slot.local.sizes().vec(), job.mesh));
      }
    }
  }
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
  for (OptimizerState::Group& group : state.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) slot = {slot.name, slot.local};
    }
  }
}

bool saves_shards(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const ParallelismSection& parallelism = section.parallelism;
  return (section.fsdp.stage > 0 || parallelism.tp > 1 || parallelism.pp > 1 ||
          parallelism.ep > 1) &&
         section.fsdp.state_dict == StateDictType::kSharded;
}

std::shared_ptr<const ShardLayout> shard_layout(const Job& job, const OptimizerState& optimizer) {
  auto layout = std::make_shared<ShardLayout>();
  layout->rank = job.rank;
  layout->ranks = job.num_ranks;
  layout->swapper = job.swapper;
  for (const Parameter& item : job.parameters) {
    ParameterShard shard = shard_of(item, item.local.sizes().vec(), job.mesh);
    if (item.is_replicated()) shard.is_written = writes_whole(*layout, item.name);
    layout->parameters.emplace(item.name, std::move(shard));
  }
  add_slots(job, optimizer, *layout);
  return layout;
}

RegionOf region_of(const Job& job) {
  return [&job, sharded = sharded_parameters(job)](
             const std::string& name, const Shape& whole) -> std::optional<TensorRegion> {
    const auto found = sharded.find(name);
    if (found == sharded.end()) return std::nullopt;
    const Parameter divided = divided_as(found->second, whole);
    if (divided.is_replicated()) return std::nullopt;
    std::vector<TensorRegion> own = own_regions(divided, job.mesh);
    if (own.size() > 1) return std::nullopt;  // take_shards() cuts the whole tensor
    return own.front();
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
    if (tensor.sizes() != at::IntArrayRef(parameter.global)) return;  // this rank's part
    tensor = share_of(tensor, parameter.placements, job.mesh);
  });
}

int64_t pending_bytes_of_all_ranks(const Job& job) {
  double whole = 0, own = 0;  // elements
  for (const Parameter& item : job.optimizer->parameters()) {
    whole += static_cast<double>(item.numel());
    own += static_cast<double>(item.local.numel());
  }
  const int64_t pending = job.optimizer->pending_state_bytes();
  return own == 0 ? pending : static_cast<int64_t>(static_cast<double>(pending) * (whole / own));
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
