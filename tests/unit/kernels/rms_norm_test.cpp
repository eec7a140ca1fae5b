#include "kernels/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_operators.h"

namespace accel::rms_norm_test {
namespace {

constexpr double kEps = 1e-5;

class RmsNormTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(1);
  }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

/// The largest difference in units of the largest value of `exact`, at least 1.
double distance(const at::Tensor& found, const at::Tensor& exact) {
  return ((found - exact).abs().max() / exact.abs().max().clamp_min(1.0)).item<double>();
}

struct Leaves {
  at::Tensor x, weight;

  Leaves in(at::ScalarType type) const {
    return {x.detach().to(type).requires_grad_(), weight.detach().to(type).requires_grad_()};
  }
  std::vector<at::Tensor> slopes(const at::Tensor& y, const at::Tensor& by) const {
    return torch::autograd::grad({y}, {x, weight}, {by});
  }
};

Leaves drawn(at::IntArrayRef sizes) {
  return Leaves{at::randn(sizes) * 3, at::randn({sizes.back()})}.in(at::kFloat);
}

TEST_F(RmsNormTest, ValuesAndGradientsAreTheReferences) {
  const std::vector<std::vector<int64_t>> shapes = {{1},  {5, 1},    {7, 3},      {2, 3, 33},
                                                    {64}, {700, 48}, {3, 5, 257}, {1500, 96}};
  for (const std::vector<int64_t>& sizes : shapes) {
    const Leaves leaves = drawn(sizes), exact = leaves.in(at::kDouble);
    const at::Tensor y = rms_norm(leaves.x, leaves.weight, kEps);
    const at::Tensor exact_y = at::rms_norm(exact.x, exact.weight.sizes(), exact.weight, kEps);
    EXPECT_EQ(y.grad_fn()->name().find("Rms") == std::string::npos, false) << y.grad_fn()->name();
    EXPECT_LT(distance(y, exact_y), 2e-6) << y.sizes();
    const at::Tensor by = at::randn(sizes);
    const auto found = leaves.slopes(y, by), wanted = exact.slopes(exact_y, by.to(at::kDouble));
    EXPECT_LT(distance(found[0], wanted[0]), 2e-6) << y.sizes();
    EXPECT_LT(distance(found[1], wanted[1]), 2e-6) << y.sizes();
  }
}

TEST_F(RmsNormTest, RowsOfZerosAndNan) {
  const at::Tensor zeros = at::zeros({1, 40}), nan = at::full({1, 40}, std::nanf(""));
  const at::Tensor x = at::cat({zeros, nan, at::full({1, 40}, 2.0)}).requires_grad_();
  const at::Tensor weight = at::full({40}, 3.0).requires_grad_();
  const at::Tensor y = rms_norm(x, weight, kEps);
  const at::Tensor dx = torch::autograd::grad({y}, {x}, {at::full({3, 40}, 1.0)})[0];
  EXPECT_EQ(y[0].abs().max().item<float>(), 0);
  EXPECT_TRUE(y[1].isnan().all().item<bool>());
  EXPECT_NEAR(y[2][39].item<float>(), 3.0, 1e-5);
  EXPECT_NEAR(dx[0][5].item<float>(), 3.0 / std::sqrt(kEps), 1e-3);
  EXPECT_TRUE(dx[1].isnan().all().item<bool>());
}

TEST_F(RmsNormTest, ThreadsDoNotChangeBits) {
  const Leaves leaves = drawn({1111, 100});
  const at::Tensor by = at::randn({1111, 100});
  const auto all = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor y = rms_norm(leaves.x, leaves.weight, kEps);
    std::vector<at::Tensor> results = leaves.slopes(y, by);
    results.push_back(y.detach());
    return results;
  };
  const auto one = all(1), three = all(3);
  at::set_num_threads(1);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST_F(RmsNormTest, TakesContiguousFloatsAlone) {
  const Leaves leaves = drawn({6, 8});
  const auto fused = [&](const at::Tensor& x, const at::Tensor& weight) {
    return rms_norm(x, weight, kEps).grad_fn()->name().find("OnCpu") != std::string::npos;
  };
  EXPECT_TRUE(fused(leaves.x, leaves.weight));
  EXPECT_FALSE(fused(leaves.x.t(), leaves.weight.narrow(0, 0, 6)));
  EXPECT_FALSE(fused(leaves.in(at::kDouble).x, leaves.in(at::kDouble).weight));
  use_kernels(Kernels::kReference);
  EXPECT_FALSE(fused(leaves.x, leaves.weight));
}

}  // namespace
}  // namespace accel::rms_norm_test
