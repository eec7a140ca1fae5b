// Adafactor on rows of parameters: the bits of whole ones.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "core/api/optimizer.h"
#include "parallel/share_region.h"
#include "tests/unit/build_component.h"
#include "tests/unit/parallel/ranks.h"
#include "train/optim/reproducible_sum.h"

namespace accel::sharded_adafactor_test {
namespace {

/// Rows that ranks divide unevenly, a single row and a single column, matrices of a convolution,
/// and rows of more elements than a block of sums.
const std::vector<std::pair<std::string, Shape>> kShapes = {
    {"odd", {35, 11}},    {"row", {1, 9}},        {"column", {7, 1}},
    {"one", {1, 1}},      {"bias", {5}},          {"conv", {3, 2, 3, 4}},
    {"stack", {5, 3, 2}}, {"wide", {3, 1 << 17}}, {"scalar", {}}};

at::Tensor numbers(const Shape& shape, int64_t seed) {
  const int64_t count = count_of(shape);
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().mul(0.3).view(shape);
}

using Tensors = std::map<std::string, at::Tensor>;

/// Weights and state, whole, after three steps; the second one has a gradient for "odd" alone.
Tensors train(const Mesh& mesh, const std::string& options) {
  OptimizerContext context;
  for (const auto& [name, shape] : kShapes) {
    Parameter item{.name = name, .local = numbers(shape, count_of(shape)), .global = shape};
    if (!shape.empty()) item.placements = {{Axis::kShard, 0}};
    item.local = share_of(item.local, item.placements, mesh).clone().requires_grad_(true);
    context.parameters.push_back(item);
  }
  context.shards = make_shard_exchange(mesh);
  const auto optimizer = build<Optimizer>("{type: adafactor" + options + "}", context);
  EXPECT_TRUE(optimizer->supports_shards());
  for (int64_t step = 0; step < 3; ++step) {
    for (const Parameter& item : context.parameters) {
      const at::Tensor whole = numbers(item.shape(), 31 * step + 5).square().sub(0.02);
      const bool skipped = step == 1 && item.name != "odd";
      item.local.mutable_grad() =
          skipped ? at::Tensor() : share_of(whole, item.placements, mesh).clone();
    }
    optimizer->step();
  }
  Tensors out;
  for (const Parameter& item : context.parameters) {
    out[item.name] = gather_whole(item, mesh).detach().clone();
  }
  const OptimizerState state = optimizer->state();
  for (const OptimizerState::ParameterState& parameter : state.groups.at(0).parameters) {
    for (const Parameter& slot : parameter.slots) {
      out[parameter.name + "." + slot.name] = gather_whole(slot, mesh).clone();
    }
  }
  return out;
}

/// By each rank.
std::vector<Tensors> train_on(int64_t ranks, const std::string& options) {
  std::vector<Tensors> out(static_cast<size_t>(ranks));
  on_ranks(ranks, [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    out[static_cast<size_t>(group.rank())] = train(make_mesh(world, {.shard = ranks}), options);
  });
  return out;
}

TEST(ShardedAdafactorTest, AnyNumberOfRanksGivesTheBitsOfOne) {
  for (const std::string options : {"", ", lr: 0.5, weight_decay: 0.1, d: 1.5, maximize: true"}) {
    const Tensors one = train(Mesh(), options);
    EXPECT_EQ(one.at("odd.row_var").sizes(), at::IntArrayRef({35, 1}));
    EXPECT_EQ(one.at("odd.col_var").sizes(), at::IntArrayRef({1, 11}));
    EXPECT_EQ(one.at("conv.col_var").sizes(), at::IntArrayRef({3, 2, 1, 4}));
    EXPECT_EQ(one.at("bias.variance").sizes(), at::IntArrayRef({5}));
    for (const int64_t ranks : {2, 3, 4}) {
      for (const Tensors& found : train_on(ranks, options)) {
        ASSERT_EQ(found.size(), one.size());
        for (const auto& [name, tensor] : one) {
          EXPECT_TRUE(at::equal(found.at(name), tensor)) << name << " on " << ranks;
        }
      }
    }
  }
}

TEST(ShardedAdafactorTest, StateHasPlacementsWhereItIsDivided) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 2});
    const std::vector<Placement> rows = {{Axis::kShard, 0}};
    const Parameter weight{
        "weight", share_of(numbers({3, 4}, 1), rows, mesh).clone(), {3, 4}, rows};
    weight.local.requires_grad_(true);
    const auto optimizer =
        build<Optimizer>("{type: adafactor}", {{weight}, make_shard_exchange(mesh)});
    const int64_t own = group.rank() == 0 ? 2 : 1;
    EXPECT_EQ(optimizer->pending_state_bytes(), 4 * (1 + own + 4));
    weight.local.mutable_grad() = numbers({own, 4}, 2);
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
