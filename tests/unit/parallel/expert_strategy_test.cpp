// Gradients and their norm under expert parallelism.
#include "parallel/expert_strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "parallel/mesh.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::expert_strategy_test {
namespace {

/// An expert of rank 0 and one of rank 1, whose gradient is (3, 4) and (6, 8), and a weight of no
/// expert.
struct Parameters {
  explicit Parameters(int64_t rank) {
    for (int64_t owner = 0; owner < 2; ++owner) {
      Parameter& expert = experts[static_cast<size_t>(owner)];
      expert = {.name = "expert" + std::to_string(owner),
                .local = at::zeros({owner == rank ? 2 : 0}).requires_grad_(true),
                .global = {2},
                .placements = {{.axis = Axis::kExpert, .dim = 0, .owner = owner}}};
      if (owner == rank) expert.local.mutable_grad() = at::arange(3, 5, at::kFloat).mul(owner + 1);
    }
    other = {"other", at::zeros({2}).requires_grad_(true)};
    other.local.mutable_grad() = at::arange(2, at::kFloat);
  }
  std::vector<Parameter> all() const { return {experts[0], experts[1], other}; }

  std::array<Parameter, 2> experts;
  Parameter other;
};

std::unique_ptr<Strategy> strategy_for(const Parameters& parameters, Communicator& group) {
  const std::shared_ptr<Communicator> same(std::shared_ptr<Communicator>(), &group);
  return make_expert_parallel({make_single(), nullptr}, parameters.all(), same);
}

TEST(ExpertStrategyTest, TheNormCountsEachExpertOnce) {
  on_ranks(2, [](Communicator& group) {
    const Parameters parameters(group.rank());
    const auto strategy = strategy_for(parameters, group);
    strategy->finish();
    const double wanted = std::sqrt(25 + 100 + 1);
    const double norm = strategy->clip_grad_norm(parameters.all(), 1.0).item().toDouble();
    EXPECT_NEAR(norm, wanted, 1e-6 * wanted);
    EXPECT_NEAR(parameters.other.local.grad()[1].item().toDouble(), 1 / wanted, 1e-6);
  });
}

TEST(ExpertStrategyTest, SharesOfOtherRanksHaveEmptyGradientsWhereTheirRankHasSome) {
  on_ranks(2, [](Communicator& group) {
    Parameters parameters(group.rank());
    if (group.rank() == 1) parameters.experts[1].local.mutable_grad() = at::Tensor();
    strategy_for(parameters, group)->finish();
    const at::Tensor& first = parameters.experts[0].local.grad();
    EXPECT_EQ(first.numel(), group.rank() == 0 ? 2 : 0);
    EXPECT_TRUE(first.defined());
    EXPECT_FALSE(parameters.experts[1].local.grad().defined());
  });
}

TEST(ExpertStrategyTest, AnOverflowOnOneRankIsOneOnAll) {
  on_ranks(2, [](Communicator& group) {
    const Parameters parameters(group.rank());
    const at::Tensor found = at::zeros({1}).add(group.rank() == 1 ? 1 : 0);
    strategy_for(parameters, group)->reduce_found_inf(found);
    EXPECT_EQ(found.item().toDouble(), 1);
  });
}

}  // namespace
}  // namespace accel::expert_strategy_test
