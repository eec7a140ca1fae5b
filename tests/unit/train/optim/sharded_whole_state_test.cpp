// 8-bit AdamW and GaLore on shares of parameters: the bits of whole ones.
#include "tests/unit/train/optim/sharded_optimizer.h"

namespace accel::sharded_whole_state_test {
namespace {

/// Blocks of 256 elements that cross shares, one that is shorter, shapes of a map and of one scale.
const ShardedTraining kTraining = {.shapes = {{"odd", {35, 11}},
                                              {"even", {12, 64}},
                                              {"column", {7, 1}},
                                              {"map", {256}},
                                              {"one", {1}},
                                              {"stack", {6, 9, 7}},
                                              {"tall", {90, 7}},
                                              {"scalar", {}}},
                                   .steps = 4,
                                   .reloaded_after = 2};

const std::vector<std::string> kRecipes = {
    "{type: adamw_8bit, min_8bit_size: 0, lr: 0.01, weight_decay: 0.1}",
    "{type: adamw_8bit, min_8bit_size: 100, exclude: [tall]}",
    "{type: galore_adamw, rank: 4, update_proj_gap: 2, weight_decay: 0.1}",
    "{type: galore_adamw, rank: 4, proj_type: reverse_std, exclude: [tall], groups: [{match: odd, "
    "rank: 11}]}"};

/// By each rank, against one process.
void expect_bits_of_one(const MeshSizes& sizes, const PlacementsOf& placements_of = in_rows) {
  for (const std::string& recipe : kRecipes) {
    expect_bits(kTraining.train_on(sizes, recipe, placements_of), kTraining.train(Mesh(), recipe),
                recipe);
  }
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
    const OptimizerContext context = {kTraining.parameters(mesh, in_rows),
                                      make_shard_exchange(mesh)};
    const auto optimizer = build<Optimizer>("{type: adamw_8bit, min_8bit_size: 0}", context);
    for (const Parameter& item : context.parameters) {
      item.local.mutable_grad() = waves(item.local.sizes().vec(), 3);
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
