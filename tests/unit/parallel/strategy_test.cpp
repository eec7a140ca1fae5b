#include "parallel/strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <mutex>

#include "tests/unit/parallel/ranks.h"
#include "tests/unit/parallel/run_passes.h"

namespace accel::strategy_test {
namespace {

/// Parameters of several sizes, the last of which no part uses.
std::vector<Parameter> make_parameters() {
  std::vector<Parameter> parameters;
  for (const int64_t size : {3, 300, 70}) {
    parameters.push_back({"p" + std::to_string(size), at::arange(size, at::kFloat).div(7.0)});
  }
  parameters.push_back({"unused", at::zeros({5})});
  for (Parameter& item : parameters) item.local.requires_grad_(true);
  return parameters;
}

/// A loss whose gradients need rounding. Odd parts leave out the second parameter.
void backward_of(const std::vector<Parameter>& parameters, int64_t part) {
  at::Tensor loss = at::zeros({});
  for (size_t i = 0; i < 3; ++i) {
    if (i == 1 && part % 2 == 1) continue;
    const double factor = 0.1 + 1.7 * static_cast<double>(part);
    loss = loss.add(parameters[i].local.mul(factor).sin().sum());
  }
  loss.backward();
}

StepLayout layout_of(int64_t planned, int64_t present, int64_t rank, int64_t world) {
  StepLayout layout{.step = 1, .num_micro_batches = planned, .own = {}};
  for (int64_t part = rank; part < present; part += world) layout.own.push_back(part);
  return layout;
}

struct Case {
  int64_t world;
  int64_t planned;
  int64_t present;  ///< parts of a window at the end of an epoch
};

/// Whether two gradients are both absent, or both there with the same bits.
bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
}

/// Runs windows and gives rank 0's gradients after each; all ranks must have the same bits.
std::vector<at::Tensor> gradients_of(const Case& c, bool canonical, int windows = 1) {
  std::vector<std::vector<at::Tensor>> made(static_cast<size_t>(c.world));
  on_ranks(c.world, [&](Communicator& group) {
    const std::vector<Parameter> parameters = make_parameters();
    const StrategyContext context{parameters, {}, &group};
    const auto strategy = canonical ? make_canonical(context, {.bucket_bytes = 512})
                                    : make_ddp(context, {.bucket_bytes = 512});
    for (int w = 0; w < windows; ++w) {
      const StepLayout layout = layout_of(c.planned, c.present, group.rank(), c.world);
      run_passes(*strategy, layout, [&](size_t i) { backward_of(parameters, layout.own[i] + w); });
      for (const Parameter& item : parameters) {
        const at::Tensor& gradient = item.local.grad();
        made[static_cast<size_t>(group.rank())].push_back(gradient.defined() ? gradient.clone()
                                                                             : gradient);
        item.local.mutable_grad().reset();
      }
    }
  });
  for (const auto& of_rank : made) {
    for (size_t i = 0; i < of_rank.size(); ++i) {
      EXPECT_TRUE(same(of_rank[i], made[0][i])) << i;
    }
  }
  return made[0];
}

/// What one process has after the same parts.
std::vector<at::Tensor> one_process(int64_t present) {
  const std::vector<Parameter> parameters = make_parameters();
  for (int64_t part = 0; part < present; ++part) backward_of(parameters, part);
  std::vector<at::Tensor> gradients;
  for (const Parameter& item : parameters) gradients.push_back(item.local.grad());
  return gradients;
}

class StrategyTest : public testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(StrategyTest, GradientsAreTheSumOverAllPartsOfAllRanks) {
  const auto& [c, canonical] = GetParam();
  if (canonical && c.world == 3) return;
  const std::vector<at::Tensor> wanted = one_process(c.present);
  const std::vector<at::Tensor> found = gradients_of(c, canonical);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(found[i].defined(), wanted[i].defined()) << i;
    if (wanted[i].defined()) {
      EXPECT_LT(found[i].sub(wanted[i]).abs().max().item().toDouble(), 1e-4) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StrategyTest,
    testing::Combine(testing::Values(Case{1, 4, 4}, Case{2, 2, 2}, Case{2, 8, 8}, Case{2, 8, 5},
                                     Case{2, 4, 1}, Case{3, 6, 6}, Case{3, 6, 2}, Case{4, 8, 8},
                                     Case{4, 4, 3}),
                     testing::Bool()));

TEST(CanonicalTest, AnyNumberOfRanksGivesTheSameBits) {
  for (const int64_t present : {8, 7, 5, 1}) {
    const std::vector<at::Tensor> wanted = gradients_of({1, 8, present}, true);
    for (const int64_t world : {2, 4, 8}) {
      const std::vector<at::Tensor> found = gradients_of({world, 8, present}, true);
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(same(found[i], wanted[i])) << world << " " << i;
      }
    }
  }
}

TEST(CanonicalTest, WindowsOfThreeTimesAPowerOfTwoWorkToo) {
  const std::vector<at::Tensor> wanted = gradients_of({1, 12, 12}, true);
  for (const int64_t world : {2, 4}) {
    const std::vector<at::Tensor> found = gradients_of({world, 12, 12}, true);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << world;
  }
}

TEST(DdpTest, TheNextWindowStartsAfresh) {
  const std::vector<at::Tensor> both = gradients_of({2, 4, 4}, false, 2);
  const std::vector<at::Tensor> again = gradients_of({2, 4, 4}, false, 2);
  ASSERT_EQ(both.size(), 8u);
  for (size_t i = 0; i < both.size(); ++i) {
    EXPECT_TRUE(same(both[i], again[i])) << i;
  }
  EXPECT_FALSE(at::equal(both[0], both[4]));
}

TEST(DdpTest, HalfTheBytesTravelWithinAHundredth) {
  const std::vector<at::Tensor> wanted = gradients_of({2, 4, 4}, false);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    on_ranks(2, [&](Communicator& group) {
      const std::vector<Parameter> parameters = make_parameters();
      const auto strategy = make_ddp({parameters, {}, &group}, {.comm_dtype = type});
      const StepLayout layout = layout_of(4, 4, group.rank(), 2);
      run_passes(*strategy, layout, [&](size_t i) { backward_of(parameters, layout.own[i]); });
      double difference = 0;
      for (size_t i = 0; i < 3; ++i) {
        const at::Tensor apart = parameters[i].local.grad().sub(wanted[i]).abs();
        const at::Tensor bound = wanted[i].abs().mul(0.01).add(0.1);
        EXPECT_TRUE(apart.le(bound).all().item().toBool());
        difference += apart.sum().item().toDouble();
      }
      EXPECT_GT(difference, 0) << "nothing was rounded";
    });
  }
}

TEST(DdpTest, BuffersAreThoseOfRankZero) {
  on_ranks(3, [](Communicator& group) {
    const at::Tensor mean = at::full({4}, static_cast<double>(group.rank()));
    const at::Tensor count = at::full({}, group.rank() + 5, at::kLong);
    const std::vector<Parameter> parameters = make_parameters();
    make_ddp({parameters, {{"mean", mean}, {"count", count}}, &group}, {})->broadcast_buffers();
    EXPECT_EQ(mean.sum().item().toDouble(), 0);
    EXPECT_EQ(count.item().toLong(), 5);
  });
}

TEST(DdpTest, HooksGoWithTheStrategy) {
  const std::vector<Parameter> parameters = make_parameters();
  SingleProcess alone;
  make_ddp({parameters, {}, &alone}, {});
  backward_of(parameters, 0);  // would call into the strategy that is gone
  EXPECT_TRUE(parameters[0].local.grad().defined());
}

}  // namespace
}  // namespace accel::strategy_test
