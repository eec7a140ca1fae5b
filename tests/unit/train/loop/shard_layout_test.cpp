// Which rank writes which part of a sharded optimizer's state.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <mutex>

#include "parallel/share_region.h"
#include "tests/unit/parallel/ranks.h"
#include "train/loop/shards.h"

namespace accel::shard_layout_test {
namespace {

/// A slot of the state of a parameter with these placements, as an optimizer reports it.
Parameter slot_of(const Parameter& parameter, const std::string& name, const Shape& whole,
                  const Mesh& mesh) {
  const std::vector<Placement> placements = state_placements(whole, parameter);
  return {name, share_of(at::zeros(whole), placements, mesh).clone(), whole, placements};
}

/// How often ranks write each element of a slot.
class Written {
 public:
  void add(const std::string& slot, const ParameterShard& shard) {
    const std::lock_guard lock(mutex_);
    at::Tensor& count = counts_[slot];
    if (!count.defined()) count = at::zeros(shard.whole, at::kLong);
    if (!shard.is_written) return;
    for (const TensorRegion& region : shard.own) {
      at::Tensor own = count;
      for (size_t dim = 0; dim < region.sizes.size(); ++dim) {
        own = own.narrow(static_cast<int64_t>(dim), region.offsets[dim], region.sizes[dim]);
      }
      own.add_(1);
    }
  }
  const std::map<std::string, at::Tensor>& counts() const { return counts_; }

 private:
  std::mutex mutex_;
  std::map<std::string, at::Tensor> counts_;
};

/// Of the factors of a matrix [6, 10] that the ranks divide by these placements.
void expect_each_written_once(const MeshSizes& sizes, const std::vector<Placement>& placements) {
  Written written;
  on_ranks(sizes.ranks(), [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    Job job;
    job.mesh = make_mesh(world, sizes);
    job.rank = group.rank();
    job.num_ranks = group.world();
    const at::Tensor own = share_of(at::zeros({6, 10}), placements, job.mesh);
    job.parameters = {{"w", own.clone(), {6, 10}, placements}};
    OptimizerState state;
    const Parameter& w = job.parameters.front();
    std::vector<Parameter> slots = {slot_of(w, "row_var", {6, 1}, job.mesh),
                                    slot_of(w, "col_var", {1, 10}, job.mesh)};
    state.groups.push_back({{}, {{"w", slots}}});
    const auto layout = shard_layout(job, state);
    for (const Parameter& slot : slots) {
      const auto found = layout->slots.find("w." + slot.name);
      EXPECT_EQ(found != layout->slots.end(), !slot.is_replicated()) << slot.name;
      if (found == layout->slots.end()) continue;
      EXPECT_EQ(found->second.sizes, slot.local.sizes().vec()) << slot.name;
      written.add(slot.name, found->second);
    }
  });
  for (const auto& [slot, count] : written.counts()) {
    EXPECT_TRUE(count.eq(1).all().item<bool>()) << slot << " on " << mesh_text(sizes);
  }
}

TEST(ShardLayoutTest, SlotsThatLackADimensionAreWrittenOnce) {
  const Placement rows = {Axis::kTensor, 0}, columns = {Axis::kTensor, 1},
                  shards = {Axis::kShard, 0};
  const Placement fused = {.axis = Axis::kTensor, .dim = 0, .blocks = 3};
  expect_each_written_once({.tensor = 2}, {rows});
  expect_each_written_once({.replicate = 2, .tensor = 2}, {columns});
  expect_each_written_once({.shard = 2, .tensor = 2}, {rows, shards});
  expect_each_written_once({.shard = 2, .tensor = 2}, {columns, shards});
  expect_each_written_once({.tensor = 2}, {fused});
  const Placement stage = {.axis = Axis::kPipeline, .dim = 0, .owner = 1};
  expect_each_written_once({.pipeline = 2}, {stage});
  expect_each_written_once({.pipeline = 2, .tensor = 2}, {stage, columns});
  expect_each_written_once({.pipeline = 2, .shard = 2}, {stage, shards});
  const Placement expert = {.axis = Axis::kExpert, .dim = 0, .owner = 0};
  expect_each_written_once({.shard = 4, .expert = 2}, {expert, {Axis::kExpertShard, 0}});
  expect_each_written_once({.replicate = 2, .shard = 2, .expert = 2}, {expert});
}

}  // namespace
}  // namespace accel::shard_layout_test
