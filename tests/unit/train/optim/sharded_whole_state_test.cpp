// 8-bit AdamW and GaLore on shares of parameters: the bits of whole ones.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>

#include "core/api/optimizer.h"
#include "parallel/share_region.h"
#include "tests/unit/build_component.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::sharded_whole_state_test {
namespace {

/// Blocks of 256 elements that cross shares, one that is shorter, shapes of a map and of one scale.
const std::vector<std::pair<std::string, Shape>> kShapes = {
    {"odd", {35, 11}}, {"even", {12, 64}},   {"column", {7, 1}}, {"map", {256}},
    {"one", {1}},      {"stack", {6, 9, 7}}, {"tall", {90, 7}},  {"scalar", {}}};

const std::vector<std::string> kRecipes = {
    "{type: adamw_8bit, min_8bit_size: 0, lr: 0.01, weight_decay: 0.1}",
    "{type: adamw_8bit, min_8bit_size: 100, exclude: [tall]}",
    "{type: galore_adamw, rank: 4, update_proj_gap: 2, weight_decay: 0.1}",
    "{type: galore_adamw, rank: 4, proj_type: reverse_std, exclude: [tall], groups: [{match: odd, "
    "rank: 11}]}"};

at::Tensor numbers(const Shape& shape, int64_t seed) {
  const int64_t count = count_of(shape);
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().mul(0.3).view(shape);
}

using Tensors = std::map<std::string, at::Tensor>;
using Placements = std::vector<Placement>;
/// Of the parameter at this place of kShapes; not called for scalars.
using PlacementsOf = std::function<Placements(size_t index, const Shape& shape)>;

Placements in_rows(size_t /*index*/, const Shape& /*shape*/) {
  return {{Axis::kShard, 0}};
}

std::vector<Parameter> fresh_parameters(const Mesh& mesh, const PlacementsOf& placements_of) {
  std::vector<Parameter> out;
  for (size_t i = 0; i < kShapes.size(); ++i) {
    const auto& [name, shape] = kShapes[i];
    Parameter item{.name = name, .local = numbers(shape, count_of(shape)), .global = shape};
    if (!shape.empty()) item.placements = placements_of(i, shape);
    item.local = share_of(item.local, item.placements, mesh).clone().requires_grad_(true);
    out.push_back(item);
  }
  return out;
}

/// Weights and state, whole, after four steps; the second one has a gradient for "odd" alone.
Tensors train(const Mesh& mesh, const std::string& recipe,
              const PlacementsOf& placements_of = in_rows) {
  const OptimizerContext context = {fresh_parameters(mesh, placements_of),
                                    make_shard_exchange(mesh)};
  auto optimizer = build<Optimizer>(recipe, context);
  EXPECT_TRUE(optimizer->supports_shards());
  for (int64_t step = 0; step < 4; ++step) {
    for (const Parameter& item : context.parameters) {
      const at::Tensor whole = numbers(item.shape(), 31 * step + 5).square().sub(0.02);
      const bool skipped = step == 1 && item.name != "odd";
      item.local.mutable_grad() =
          skipped ? at::Tensor() : share_of(whole, item.placements, mesh).clone();
    }
    optimizer->step();
    if (step != 2) continue;
    auto resumed = build<Optimizer>(recipe, context);
    resumed->load(optimizer->state());
    optimizer = std::move(resumed);
  }
  Tensors out;
  for (const Parameter& item : context.parameters) {
    out[item.name] = gather_whole(item, mesh).detach().clone();
  }
  const OptimizerState state = optimizer->state();
  for (const OptimizerState::Group& group : state.groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      for (const Parameter& slot : parameter.slots) {
        out[parameter.name + "." + slot.name] = gather_whole(slot, mesh).clone();
      }
    }
  }
  return out;
}

/// By each rank, against one process.
void expect_bits_of_one(const MeshSizes& sizes, const PlacementsOf& placements_of = in_rows) {
  for (const std::string& recipe : kRecipes) {
    const Tensors one = train(Mesh(), recipe);
    std::vector<Tensors> found(static_cast<size_t>(sizes.ranks()));
    on_ranks(sizes.ranks(), [&](Communicator& group) {
      const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
      found[static_cast<size_t>(group.rank())] =
          train(make_mesh(world, sizes), recipe, placements_of);
    });
    for (const Tensors& of_rank : found) {
      ASSERT_EQ(of_rank.size(), one.size());
      for (const auto& [name, tensor] : one) {
        EXPECT_TRUE(at::equal(of_rank.at(name), tensor)) << name << " of " << recipe;
      }
    }
  }
}

/// The last dimension, of a column-parallel or row-parallel layer, or one in between.
int64_t dim_of(size_t index, const Shape& shape) {
  return static_cast<int64_t>(index) % static_cast<int64_t>(shape.size());
}

TEST(ShardedWholeStateTest, AnyNumberOfRanksGivesTheBitsOfOne) {
  for (const int64_t ranks : {2, 3}) expect_bits_of_one({.shard = ranks});
}

TEST(ShardedWholeStateTest, AnyDividedDimensionsGiveTheBitsOfWholeTensors) {
  expect_bits_of_one({.shard = 2, .tensor = 2}, [](size_t index, const Shape& shape) {
    const int64_t dim = dim_of(index, shape);
    const int64_t blocks = dim == 0 && shape[0] % 3 == 0 ? 3 : 1;
    return Placements{{Axis::kTensor, dim, blocks}, {Axis::kShard, 0}};
  });
}

TEST(ShardedWholeStateTest, ParametersOfOtherRanksHaveTheBitsOfOne) {
  expect_bits_of_one({.pipeline = 2, .tensor = 2}, [](size_t index, const Shape& shape) {
    const auto owner = static_cast<int64_t>(index) % 2;
    return Placements{{.axis = Axis::kPipeline, .dim = 0, .owner = owner},
                      {Axis::kTensor, dim_of(index, shape)}};
  });
}

TEST(ShardedWholeStateTest, EachRankHasItsCodesAndTheScalesOfAllBlocks) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 2});
    const OptimizerContext context = {fresh_parameters(mesh, in_rows), make_shard_exchange(mesh)};
    const auto optimizer = build<Optimizer>("{type: adamw_8bit, min_8bit_size: 0}", context);
    for (const Parameter& item : context.parameters) {
      item.local.mutable_grad() = numbers(item.local.sizes().vec(), 3);
    }
    optimizer->step();
    const OptimizerState state = optimizer->state();
    const std::vector<Parameter>& slots = state.groups.at(0).parameters.at(1).slots;  // "even"
    EXPECT_EQ(slots.at(1).local.sizes(), (at::IntArrayRef{6, 64}));
    EXPECT_EQ(slots.at(1).placements, (Placements{{Axis::kShard, 0}}));
    EXPECT_EQ(slots.at(3).name, "absmax1");
    EXPECT_EQ(slots.at(3).local.sizes(), (at::IntArrayRef{3}));
    EXPECT_TRUE(slots.at(3).is_replicated());
  });
}

}  // namespace
}  // namespace accel::sharded_whole_state_test
