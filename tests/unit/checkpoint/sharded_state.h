// The small state as the ranks of a mesh hold it: rows of parameters, and everything else whole.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/shard_files.h"
#include "checkpoint/store.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel {

/// The rows of `rank`, as torch.chunk divides them.
inline TensorRegion rows_of_rank(const Shape& whole, int64_t rank, int64_t ranks) {
  const int64_t each = (whole[0] + ranks - 1) / ranks;
  TensorRegion out = {Shape(whole.size(), 0), whole};
  out.offsets[0] = std::min(whole[0], each * rank);
  out.sizes[0] = std::min(each, whole[0] - out.offsets[0]);
  return out;
}

/// The regions that a rank of a sharded job wants: rows of two parameters of small_state().
inline RegionOf rows_of_rank(int64_t rank, int64_t ranks) {
  return [=](const std::string& name, const Shape& whole) -> std::optional<TensorRegion> {
    const bool sharded =
        (name == "wte.weight" && whole == Shape{3, 2}) || (name == "bias" && whole == Shape{2});
    if (!sharded) return std::nullopt;
    return rows_of_rank(whole, rank, ranks);
  };
}

inline void take_rows(const TensorRegion& rows, const Shape& whole, at::Tensor& tensor) {
  if (tensor.sizes() != at::IntArrayRef(whole)) return;
  tensor = tensor.narrow(0, rows.offsets[0], rows.sizes[0]);
}

/// As TrainState::shards says, with the tensors that the rank writes. Ties are for one rank: a
/// tied tensor is in no sharded state.
/// With `replicas`, ranks `ranks`, `ranks` + 1, ... hold the rows of rank 0, 1, ... too.
inline TrainState state_of_rank(TrainState state, int64_t number, int64_t ranks,
                                int64_t replicas = 1) {
  state.model.pop_back();
  ShardLayout layout{.rank = number, .ranks = ranks * replicas, .parameters = {}};
  const ShardLayout replica{.rank = number / ranks, .ranks = replicas, .parameters = {}};
  const int64_t rank = number % ranks;
  for (const auto& [name, whole] :
       {std::pair<std::string, Shape>("wte.weight", {3, 2}), {"bias", {2}}}) {
    const TensorRegion rows = rows_of_rank(whole, rank, ranks);
    const bool first_empty =
        rank > 0 && rows_of_rank(whole, rank - 1, ranks).sizes[0] > 0 && rows.sizes[0] == 0;
    layout.parameters[name] = {whole,
                               {rows},
                               rows.sizes,
                               true,
                               (rows.sizes[0] > 0 || first_empty) && writes_whole(replica, name)};
    for (Parameter& item : state.model) {
      if (item.name == name) take_rows(rows, whole, item.local);
    }
    for (OptimizerState::Group& group : state.optimizer.groups) {
      for (OptimizerState::ParameterState& parameter : group.parameters) {
        if (parameter.name != name) continue;
        for (Parameter& slot : parameter.slots) take_rows(rows, whole, slot.local);
      }
    }
    auto& average = state.sections["callbacks/ema"].tensors;
    if (average.contains(name)) take_rows(rows, whole, average[name]);
  }
  state.shards = std::make_shared<const ShardLayout>(std::move(layout));
  keep_written(state);
  return state;
}

/// Saves `state` as `ranks` ranks do; returns the folder.
inline std::string save_sharded(CheckpointStore& store, const TrainState& state, int64_t ranks,
                                int64_t replicas = 1) {
  const TrainState main = state_of_rank(state, 0, ranks, replicas);
  store.stage(main, 4096);
  std::vector<ShardRecord> records;
  try {
    for (int64_t rank = 0; rank < ranks * replicas; ++rank) {
      const ShardRecord record = store.write_shards(state_of_rank(state, rank, ranks, replicas));
      records.push_back(shard_record_of(to_bytes(record)));
    }
  } catch (const IoError&) {
    store.discard_staged(state.progress.step);
    throw;
  }
  return store.publish_shards(main, std::move(records));
}

/// A loaded state without what a sharded one has not: the order of slots and options, ties.
inline TrainState comparable(TrainState state) {
  std::erase_if(state.model, [](const Parameter& item) { return item.name == "lm_head.weight"; });
  for (OptimizerState::Group& group : state.optimizer.groups) {
    std::sort(group.hyper.begin(), group.hyper.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      std::sort(parameter.slots.begin(), parameter.slots.end(),
                [](const Parameter& a, const Parameter& b) { return a.name < b.name; });
    }
  }
  return state;
}

}  // namespace accel
