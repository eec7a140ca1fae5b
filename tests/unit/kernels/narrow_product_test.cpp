#include "kernels/narrow_product.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <utility>

#include "kernels/cpu_operators.h"

namespace accel::narrow_product_test {
namespace {

/// The first columns of rows that poison follows.
at::Tensor matrix(int64_t rows, int64_t columns) {
  const at::Tensor whole = at::full({rows, columns + 3}, std::numeric_limits<float>::quiet_NaN());
  whole.narrow(1, 0, columns).copy_(at::randn({rows, columns}));
  return whole.narrow(1, 0, columns);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b).abs().max().item<double>();
}

class NarrowProductTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(2);
    use_kernels(Kernels::kFused);
  }
  void TearDown() override {
    at::set_num_threads(1);
    use_kernels(Kernels::kReference);
  }
};

TEST_F(NarrowProductTest, IsThatOfDoubles) {
  for (const auto& [rows, inner, columns] :
       {std::array<int64_t, 3>{256, 128, 512}, {300, 70, 65}, {1001, 300, 100}, {256, 1, 1}}) {
    const at::Tensor a = matrix(rows, inner), weight = matrix(columns, inner);
    const at::Tensor turned = matrix(inner, columns), bias = at::randn({columns});
    for (const at::Tensor& b : {weight.t(), turned}) {
      ASSERT_TRUE(is_narrow_product(a, b, MeasuredCpu::kIntelAvx512));
      const at::Tensor wanted = at::mm(a.to(at::kDouble), b.to(at::kDouble));
      EXPECT_LT(distance(narrow_product(a, b, {}), wanted), 1e-4) << rows;
      EXPECT_LT(distance(narrow_product(a, b, bias), wanted + bias.to(at::kDouble)), 1e-4) << rows;
    }
  }
}

TEST_F(NarrowProductTest, HasTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor a = matrix(1000, 96), b = matrix(96, 80), bias = at::randn({80});
  const at::Tensor one = narrow_product(a, b, bias);
  at::set_num_threads(3);
  EXPECT_TRUE(narrow_product(a, b, bias).equal(one));
}

TEST_F(NarrowProductTest, ReplacesAtensOperators) {
  if (measured_cpu() == MeasuredCpu::kUnmeasured) GTEST_SKIP() << "ATen multiplies here";
  const at::Tensor x = at::randn({2, 200, 96}).set_requires_grad(true);
  const at::Tensor weight = at::randn({80, 96}).set_requires_grad(true);
  const at::Tensor bias = at::randn({80}).set_requires_grad(true);
  const at::Tensor rows = x.detach().view({400, 96});
  EXPECT_TRUE(at::linear(x, weight, bias)
                  .view({400, 80})
                  .equal(narrow_product(rows, weight.detach().t(), bias.detach())));
  EXPECT_TRUE(
      at::mm(rows, weight.detach().t()).equal(narrow_product(rows, weight.detach().t(), {})));
  const at::Tensor slope = at::randn({2, 200, 80});
  at::linear(x, weight, bias).backward(slope);
  EXPECT_TRUE(
      x.grad().view({400, 96}).equal(narrow_product(slope.view({400, 80}), weight.detach(), {})));
}

/// Those of at::addmm that are no linear layer.
TEST_F(NarrowProductTest, LeavesOtherSumsToAten) {
  const at::Tensor a = at::randn({300, 20}), b = at::randn({20, 30});
  const at::Tensor wanted = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  const at::Tensor bias = at::randn({30}), sums = at::randn({300, 30});
  EXPECT_LT(distance(at::addmm(bias, a, b, 2), wanted + 2 * bias.to(at::kDouble)), 1e-4);
  EXPECT_LT(distance(at::addmm(bias, a, b, 1, 3), 3 * wanted + bias.to(at::kDouble)), 1e-4);
  EXPECT_LT(distance(at::addmm(sums, a, b), wanted + sums.to(at::kDouble)), 1e-4);
  EXPECT_LT(distance(at::addmm(at::full({1}, 7.0F), a, b), wanted + 7), 1e-4);
  EXPECT_THROW(at::mm(a, at::randn({21, 30})), c10::Error);
  EXPECT_THROW(at::addmm(bias, a, at::randn({21, 30})), c10::Error);
}

TEST_F(NarrowProductTest, TakesWhatWasMeasuredToBeFaster) {
  constexpr auto kCpu = MeasuredCpu::kIntelAvx512;
  const at::Tensor a = at::randn({256, 64}), b = at::randn({64, 64});
  EXPECT_TRUE(is_narrow_product(a, b, kCpu));
  EXPECT_FALSE(is_narrow_product(a.narrow(0, 0, 255), b, kCpu));
  EXPECT_FALSE(is_narrow_product(at::randn({64, 256}).t(), b, kCpu));
  EXPECT_FALSE(is_narrow_product(a, at::randn({64, 128}).as_strided({64, 64}, {128, 2}), kCpu));
  EXPECT_FALSE(is_narrow_product(a, at::randn({65, 64}), kCpu));
  EXPECT_FALSE(is_narrow_product(a.to(at::kDouble), b.to(at::kDouble), kCpu));
  EXPECT_FALSE(is_narrow_product(a, b.to(at::kBFloat16), kCpu));
  EXPECT_TRUE(is_narrow_product(at::randn({256, 1024}), at::randn({1024, 64}), kCpu));
  EXPECT_FALSE(is_narrow_product(at::randn({256, 1025}), at::randn({1025, 64}), kCpu));
  for (const auto& [cpu, most] : {std::pair(MeasuredCpu::kIntelAvx512, int64_t{4096}),
                                  std::pair(MeasuredCpu::kAvx2, int64_t{1024})}) {
    EXPECT_TRUE(is_narrow_product(a, at::randn({64, most}), cpu));
    EXPECT_FALSE(is_narrow_product(a, at::randn({64, most + 1}), cpu));
  }
  EXPECT_FALSE(is_narrow_product(a, b, MeasuredCpu::kUnmeasured));
}

}  // namespace
}  // namespace accel::narrow_product_test
