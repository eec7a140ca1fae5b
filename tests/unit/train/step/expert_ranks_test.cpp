// Tokens of several ranks and experts that they divide, against one process.
#include "parallel/expert_ranks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>

#include <ATen/CPUGeneratorImpl.h>

#include "models/layers/expert_routing.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::expert_ranks_test {
namespace {

constexpr int64_t kExperts = 4, kTokens = 6, kWidth = 3;

/// Leaves with the same values on all ranks: the tokens of two ranks, of different numbers, which
/// no router sends to expert 2.
struct Layer {
  Layer() {
    at::Generator generator = at::detail::createCPUGenerator(7);
    x = at::randn({2 * kTokens, kWidth}, generator).set_requires_grad(true);
    at::Tensor logits = at::randn({2 * kTokens, kExperts}, generator);
    logits.select(1, 2).fill_(-30);
    probabilities = logits.softmax(-1).set_requires_grad(true);
    experts = at::randn({kExperts, kWidth, kWidth}, generator).set_requires_grad(true);
  }

  at::Tensor mixed(int64_t first, int64_t count, const ExpertRanks* ranks) const {
    const ExpertRouting routing =
        route_to_experts(probabilities.narrow(0, first, count), {2}, /*normalize=*/true);
    return mix_experts(
        x.narrow(0, first, count), routing,
        [&](size_t i, const at::Tensor& rows) {
          return at::linear(rows, experts[static_cast<int64_t>(i)]).tanh();
        },
        ranks);
  }

  at::Tensor x, probabilities, experts;
};

/// On each of two ranks, with `first_tokens` of all tokens on rank 0.
void expect_equals_one_process(int64_t first_tokens) {
  const Layer whole;
  const at::Tensor all = whole.mixed(0, 2 * kTokens, nullptr);
  all.square().sum().backward();
  on_ranks(2, [&](Communicator& group) {
    const std::shared_ptr<Communicator> same(std::shared_ptr<Communicator>(), &group);
    const auto ranks = make_expert_ranks(same);
    const Layer layer;
    const bool is_first = group.rank() == 0;
    const int64_t first = is_first ? 0 : first_tokens;
    const int64_t count = is_first ? first_tokens : 2 * kTokens - first_tokens;
    const at::Tensor own = layer.mixed(first, count, ranks.get());
    EXPECT_LT(own.sub(all.narrow(0, first, count)).abs().sum().item<double>(), 1e-6);
    own.square().sum().backward();
    const auto expect_equal = [](const at::Tensor& found, const at::Tensor& wanted) {
      EXPECT_LT(found.sub(wanted).abs().sum().item<double>(), 1e-5);
    };
    // This rank's experts have the gradients of all tokens, the others none.
    const at::Tensor found = layer.experts.grad(), wanted = whole.experts.grad();
    expect_equal(found.narrow(0, group.rank() * 2, 2), wanted.narrow(0, group.rank() * 2, 2));
    EXPECT_EQ(found.narrow(0, 2 - group.rank() * 2, 2).abs().sum().item<double>(), 0);
    EXPECT_EQ(wanted[2].abs().sum().item<double>(), 0);
    for (const auto& [leaf, of_whole] :
         {std::pair(layer.x, whole.x), std::pair(layer.probabilities, whole.probabilities)}) {
      expect_equal(leaf.grad().narrow(0, first, count), of_whole.grad().narrow(0, first, count));
    }
  });
}

TEST(ExpertRanksTest, TheExpertsOfAllRanksComputeWhatOneProcessComputes) {
  expect_equals_one_process(kTokens);
}

TEST(ExpertRanksTest, RanksMayHaveDifferentNumbersOfTokensOrNone) {
  expect_equals_one_process(9);
  expect_equals_one_process(0);
}

TEST(ExpertRanksTest, CountsAreThoseOfThisRanksExperts) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> same(std::shared_ptr<Communicator>(), &group);
    const auto ranks = make_expert_ranks(same);
    const int64_t base = 10 * group.rank();
    const ExpertCounts counts =
        ranks->exchange_counts({base, base + 1, base + 2, base + 3}, at::kCPU);
    const int64_t first = 2 * group.rank();
    EXPECT_EQ(counts, (ExpertCounts{{first, first + 1}, {first + 10, first + 11}}));
  });
}

}  // namespace
}  // namespace accel::expert_ranks_test
