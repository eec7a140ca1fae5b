#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "parallel/operations.h"
#include "parallel/strategy.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/parallel/run_passes.h"

namespace accel::local_sgd_test {
namespace {

/// A rank with one weight and one buffer.
struct LocalRank {
  LocalRank(Communicator& group, int64_t every)
      : weight(at::full({2}, 1.0).requires_grad_(true)),
        buffer(at::full({}, static_cast<double>(group.rank()))),
        strategy(make_local_sgd({{{"weight", weight}}, {{"buffer", buffer}}, &group}, every)) {}

  /// One update by plain descent: the gradient is the number of the rank, plus one.
  void update(Communicator& group, int64_t step) {
    const StepLayout layout{
        .step = step, .num_micro_batches = group.world(), .own = {group.rank()}};
    run_passes(*strategy, layout,
               [&](size_t) { weight.mul(static_cast<double>(group.rank() + 1)).sum().backward(); });
    weight.detach().sub_(weight.grad());
    weight.mutable_grad().reset();
    strategy->updated(step);
  }

  double value() const { return weight.detach().select(0, 0).item().toDouble(); }

  at::Tensor weight, buffer;
  std::unique_ptr<Strategy> strategy;
};

TEST(LocalSgdTest, WeightsAreAveragedAfterEveryKthUpdate) {
  on_ranks(3, [](Communicator& group) {
    LocalRank rank(group, 2);
    const auto own = static_cast<double>(group.rank() + 1);
    rank.update(group, 1);
    EXPECT_EQ(rank.value(), 1 - own);
    rank.update(group, 2);
    EXPECT_FLOAT_EQ(static_cast<float>(rank.value()), 1 - 2 * 2);  // the mean of 1, 2 and 3, twice
    rank.update(group, 3);
    EXPECT_FLOAT_EQ(static_cast<float>(rank.value()), static_cast<float>(-3 - own));
    EXPECT_EQ(rank.buffer.item().toDouble(), group.rank());
  });
}

TEST(LocalSgdTest, AnEvaluationSeesTheAverageAndChangesNothing) {
  on_ranks(2, [](Communicator& group) {
    LocalRank rank(group, 8);
    rank.update(group, 1);
    const at::Tensor before = rank.weight.detach().clone();
    rank.strategy->swap_in_average();
    EXPECT_EQ(rank.value(), -0.5);
    EXPECT_EQ(rank.buffer.item().toDouble(), 0);
    rank.strategy->restore_local();
    EXPECT_TRUE(at::equal(rank.weight.detach(), before));
    EXPECT_EQ(rank.buffer.item().toDouble(), group.rank());
  });
}

TEST(LocalSgdTest, GoesOnFromItsState) {
  on_ranks(2, [](Communicator& group) {
    LocalRank rank(group, 2), other(group, 2);
    rank.update(group, 1);
    other.strategy->load(rank.strategy->state());
    EXPECT_TRUE(at::equal(other.weight.detach(), rank.weight.detach()));
    other.strategy->swap_in_average();
    EXPECT_EQ(other.value(), -0.5);  // it knows that the ranks are apart
    other.strategy->restore_local();
  });
}

TEST(LocalSgdTest, StateOfAnotherModelIsRefused) {
  SingleProcess alone;
  LocalRank rank(alone, 2);
  StateDict state;
  state.tensors["weight"] = at::zeros({3});
  rank.strategy->load(state);  // another strategy's
  EXPECT_EQ(rank.value(), 1);
  state.numbers["apart"] = 1;
  try {
    rank.strategy->load(state);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(std::string(error.what()),
              "the checkpoint's 'local_sgd' state has no 'weight' that fits the model");
  }
}

TEST(GatherStatesTest, TheFirstRankGetsWhatEachHas) {
  on_ranks(3, [](Communicator& group) {
    StateDict own;
    own.numbers["rank"] = static_cast<double>(group.rank()) + 0.1;
    for (int64_t i = 0; i <= group.rank(); ++i) {
      own.tensors["t" + std::to_string(i)] =
          at::full({i + 1, 2}, static_cast<double>(group.rank()), i == 0 ? at::kLong : at::kFloat);
    }
    own.tensors["scalar"] = at::full({}, static_cast<double>(group.rank()), at::kDouble);
    const std::vector<StateDict> all = gather_states(group, own);
    ASSERT_EQ(all.size(), group.is_main() ? 3u : 0u);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto number = static_cast<double>(rank);
      EXPECT_EQ(all[rank].numbers.at("rank"), number + 0.1);
      EXPECT_EQ(all[rank].tensors.size(), rank + 2);
      for (const auto& [name, tensor] : all[rank].tensors) {
        EXPECT_TRUE(tensor.eq(number).all().item().toBool()) << name;
      }
      EXPECT_EQ(all[rank].tensors.at("t0").scalar_type(), at::kLong);
      EXPECT_EQ(all[rank].tensors.at("scalar").dim(), 0);
    }
  });
}

}  // namespace
}  // namespace accel::local_sgd_test
