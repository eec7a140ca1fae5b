#include "train/loop/shards.h"

#include <functional>
#include <map>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"

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

void take_shards(const Job& job, TrainState& state) {
  const Sharded sharded = sharded_parameters(job);
  if (sharded.empty()) return;
  for_each_shard(sharded, state, true, [&](const Parameter& parameter, at::Tensor& tensor) {
    if (tensor.sizes() != at::IntArrayRef(parameter.global)) {
      throw CheckpointError(text("'{}' is {} in the model but {} in the checkpoint", parameter.name,
                                 to_string(parameter.global), shape_text(tensor)));
    }
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
