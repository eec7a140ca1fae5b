// Gradients and their norm under tensor parallelism.
#include "parallel/tensor_strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

#include "parallel/mesh.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::tensor_strategy_test {
namespace {

at::Tensor with_gradient(const at::Tensor& gradient) {
  at::Tensor out = at::zeros(gradient.sizes()).requires_grad_(true);
  out.mutable_grad() = gradient.clone();
  return out;
}

/// On each of two ranks: a divided weight, a whole one, and one with parts of a gradient.
struct Parameters {
  explicit Parameters(int64_t rank) {
    const at::Tensor all = at::arange(6, at::kFloat).view({3, 2});
    divided = {.name = "divided",
               .local = with_gradient(rank == 0 ? all.narrow(0, 0, 2) : all.narrow(0, 2, 1)),
               .global = {3, 2},
               .placements = {{Axis::kTensor, 0}}};
    whole = {"whole", with_gradient(at::arange(3, at::kFloat))};
    partial = {"partial", with_gradient(at::arange(2, at::kFloat).add(rank * 10))};
  }
  std::vector<Parameter> all() const { return {divided, whole, partial}; }

  Parameter divided, whole, partial;
};

double norm_of(std::initializer_list<double> gradients) {
  double sum = 0;
  for (const double each : gradients) sum += each * each;
  return std::sqrt(sum);
}

TEST(TensorStrategyTest, PartsOfGradientsAreSummedAndTheNormCountsEachElementOnce) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> tensor(std::shared_ptr<Communicator>(), &group);
    const Parameters parameters(group.rank());
    const auto strategy = make_tensor_parallel(make_single(), {parameters.partial}, tensor);
    strategy->finish();
    EXPECT_TRUE(
        at::equal(parameters.partial.local.grad(), at::arange(2, at::kFloat).mul(2).add(10)));
    EXPECT_TRUE(at::equal(parameters.whole.local.grad(), at::arange(3, at::kFloat)));
    const double wanted = norm_of({0, 1, 2, 3, 4, 5, 0, 1, 2, 10, 12});
    const double norm = strategy->clip_grad_norm(parameters.all(), 1.0).item().toDouble();
    EXPECT_NEAR(norm, wanted, 1e-6 * wanted);
    EXPECT_NEAR(parameters.whole.local.grad()[2].item().toDouble(), 2 / wanted, 1e-6);
  });
}

TEST(TensorStrategyTest, ARankWithoutGradientsHasTheNormOfTheOthers) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> tensor(std::shared_ptr<Communicator>(), &group);
    const Parameters parameters(group.rank());
    const auto strategy = make_tensor_parallel(make_single(), {}, tensor);
    const std::vector<Parameter> divided = {parameters.divided};
    EXPECT_NEAR(strategy->gradient_norm(divided).item().toDouble(), norm_of({1, 2, 3, 4, 5}), 1e-6);
    const std::vector<Parameter> whole = {parameters.whole};
    EXPECT_NEAR(strategy->gradient_norm(whole).item().toDouble(), norm_of({1, 2}), 1e-6);
  });
}

TEST(TensorStrategyTest, AnOverflowOnOneRankIsOneOnAll) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> tensor(std::shared_ptr<Communicator>(), &group);
    const auto strategy = make_tensor_parallel(make_single(), {}, tensor);
    const at::Tensor found = at::zeros({1}).add(group.rank() == 1 ? 1 : 0);
    strategy->reduce_found_inf(found);
    EXPECT_EQ(found.item().toDouble(), 1);
  });
}

}  // namespace
}  // namespace accel::tensor_strategy_test
