// Adafactor on shares of parameters: the bits of whole ones.
#include "tests/unit/train/optim/sharded_optimizer.h"
#include "train/optim/reproducible_sum.h"

namespace accel::sharded_adafactor_test {
namespace {

/// Rows that ranks divide unevenly, a single row and a single column, matrices of a convolution,
/// and rows of more elements than a block of sums.
const ShardedTraining kTraining = {.shapes = {{"odd", {35, 11}},
                                              {"row", {1, 9}},
                                              {"column", {7, 1}},
                                              {"one", {1, 1}},
                                              {"bias", {5}},
                                              {"conv", {3, 2, 3, 4}},
                                              {"stack", {5, 3, 2}},
                                              {"wide", {3, 1 << 17}},
                                              {"scalar", {}}}};

std::string adafactor(const std::string& options) {
  return "{type: adafactor" + options + "}";
}

TEST(ShardedAdafactorTest, AnyNumberOfRanksGivesTheBitsOfOne) {
  for (const std::string options : {"", ", lr: 0.5, weight_decay: 0.1, d: 1.5, maximize: true"}) {
    const NamedTensors one = kTraining.train(Mesh(), adafactor(options));
    EXPECT_EQ(one.at("odd.row_var").sizes(), at::IntArrayRef({35, 1}));
    EXPECT_EQ(one.at("odd.col_var").sizes(), at::IntArrayRef({1, 11}));
    EXPECT_EQ(one.at("conv.col_var").sizes(), at::IntArrayRef({3, 2, 1, 4}));
    EXPECT_EQ(one.at("bias.variance").sizes(), at::IntArrayRef({5}));
    for (const int64_t ranks : {2, 3, 4}) {
      expect_bits(kTraining.train_on({.shard = ranks}, adafactor(options)), one,
                  std::to_string(ranks));
    }
  }
}

TEST(ShardedAdafactorTest, AnyDividedDimensionsGiveTheBitsOfWholeTensors) {
  const std::string options = ", weight_decay: 0.1, eps: [1.0e-7, 0.01]";
  const NamedTensors one = kTraining.train(Mesh(), adafactor(options));
  const auto last = [](size_t, const Shape& shape) {
    return Placements{{Axis::kTensor, static_cast<int64_t>(shape.size()) - 1}};
  };
  const auto mixed = [](size_t index, const Shape& shape) {
    const int64_t blocks = shape[0] % 7 == 0 ? 7 : 1;
    return Placements{{Axis::kTensor, dim_of(index, shape), dim_of(index, shape) == 0 ? blocks : 1},
                      {Axis::kShard, 0}};
  };
  expect_bits(kTraining.train_on({.tensor = 2}, adafactor(options), last), one, "columns");
  expect_bits(kTraining.train_on({.shard = 2, .tensor = 2}, adafactor(options), mixed), one,
              "dp_shard and tp");
}

TEST(ShardedAdafactorTest, ParametersOfOtherRanksAreLeftOut) {
  const std::string options = ", weight_decay: 0.1";
  const NamedTensors one = kTraining.train(Mesh(), adafactor(options));
  const auto of_stages = [](size_t index, const Shape& shape) {
    const auto owner = static_cast<int64_t>(index) % 2;
    return Placements{{.axis = Axis::kPipeline, .dim = 0, .owner = owner},
                      {Axis::kTensor, dim_of(index, shape)}};
  };
  // Every third parameter is of no expert; the group of its rows has ranks with different experts.
  const auto of_experts = [](size_t index, const Shape&) {
    if (index % 3 == 0) return Placements{{Axis::kShard, 0}};
    return Placements{{.axis = Axis::kExpert, .dim = 0, .owner = static_cast<int64_t>(index) % 2},
                      {Axis::kExpertShard, 0}};
  };
  expect_bits(kTraining.train_on({.pipeline = 2, .tensor = 2}, adafactor(options), of_stages), one,
              "stages");
  expect_bits(kTraining.train_on({.shard = 4, .expert = 2}, adafactor(options), of_experts), one,
              "experts");
}

TEST(ShardedAdafactorTest, StateHasPlacementsWhereItIsDivided) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 2});
    const std::vector<Placement> rows = {{Axis::kShard, 0}};
    const Parameter weight{"weight", share_of(waves({3, 4}, 1), rows, mesh).clone(), {3, 4}, rows};
    weight.local.requires_grad_(true);
    const auto optimizer =
        build<Optimizer>("{type: adafactor}", {{weight}, make_shard_exchange(mesh)});
    const int64_t own = group.rank() == 0 ? 2 : 1;
    EXPECT_EQ(optimizer->pending_state_bytes(), 4 * (1 + own + 4));
    weight.local.mutable_grad() = waves({own, 4}, 2);
    optimizer->step();
    std::map<std::string, Parameter> slots;
    const OptimizerState state = optimizer->state();
    for (const Parameter& slot : state.groups.at(0).parameters.at(0).slots) {
      slots[slot.name] = slot;
    }
    EXPECT_EQ(slots.at("row_var").placements, rows);
    EXPECT_EQ(slots.at("row_var").shape(), (Shape{3, 1}));
    EXPECT_TRUE(slots.at("col_var").is_replicated());
    EXPECT_EQ(slots.at("col_var").global, (Shape{1, 4}));
    EXPECT_TRUE(slots.at("step").is_replicated());
  });
}

TEST(ReproducibleSumTest, OrderDoesNotMatterAndTheSumIsRight) {
  const at::Tensor numbers = at::arange(1, 100001, at::kDouble).mul(0.37).sin().square().mul(1e9);
  const at::Tensor largest = numbers.amax();
  const double sum = reproducible_sum(numbers, 0, largest, 100000).item<double>();
  EXPECT_EQ(reproducible_sum(numbers.flip(0), 0, largest, 100000).item<double>(), sum);
  const double halves =
      reproducible_sum(numbers.narrow(0, 0, 333), 0, largest, 100000).item<double>() +
      reproducible_sum(numbers.narrow(0, 333, 99667), 0, largest, 100000).item<double>();
  EXPECT_EQ(halves, sum);
  EXPECT_NEAR(sum, numbers.sum().item<double>(), 1e-12 * sum);
}

TEST(ReproducibleSumTest, ZerosAndTinyNumbersAreSummed) {
  const at::Tensor zeros = at::arange(3, at::kDouble).mul(0);
  EXPECT_EQ(reproducible_sum(zeros, 0, zeros.amax(), 3).item<double>(), 0);
  const at::Tensor tiny = at::arange(1, 4, at::kDouble).mul(1e-90);
  EXPECT_NEAR(reproducible_sum(tiny, 0, tiny.amax(), 3).item<double>(), 6e-90, 1e-104);
  EXPECT_EQ(row_sums_of_squares(at::arange(6, at::kFloat).view({2, 3})).sum().item<double>(), 55);
}

}  // namespace
}  // namespace accel::sharded_adafactor_test
