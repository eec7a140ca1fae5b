#include "kernels/swiglu.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_operators.h"

namespace accel::swiglu_test {
namespace {

class SwigluTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(1);
  }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

/// y and the gradients of gate and up for gradients `by` of y.
std::vector<at::Tensor> pass(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& by,
                             bool exact = false) {
  const auto leaf = [](const at::Tensor& x) { return x.detach().clone().requires_grad_(); };
  const at::Tensor a = leaf(gate), b = leaf(up);
  const at::Tensor y = exact ? at::silu(a).mul(b) : swiglu(a, b);
  std::vector<at::Tensor> all = torch::autograd::grad({y}, {a, b}, {by});
  all.push_back(y.detach());
  return all;
}

/// The largest difference relative to |exact|, at least 1.
double distance(const at::Tensor& found, const at::Tensor& exact) {
  return ((found - exact).abs() / exact.abs().clamp_min(1.0)).max().item<double>();
}

TEST_F(SwigluTest, Float32IsTheExactFunction) {
  const at::Tensor gate = at::linspace(-40, 40, 100003), up = at::randn({100003});
  const at::Tensor by = at::randn({100003});
  const auto found = pass(gate, up, by);
  const auto exact = pass(gate.to(at::kDouble), up.to(at::kDouble), by.to(at::kDouble), true);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(distance(found[i], exact[i]), 2e-6) << i;
}

TEST_F(SwigluTest, Bfloat16RoundsOnce) {
  const auto half = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  const at::Tensor gate = half(at::linspace(-20, 20, 5001)), up = half(at::randn({5001}));
  const at::Tensor by = half(at::randn({5001}));
  const auto found = pass(gate, up, by);
  const auto exact = pass(gate.to(at::kDouble), up.to(at::kDouble), by.to(at::kDouble), true);
  for (size_t i = 0; i < found.size(); ++i) {
    // Half a unit in the last place is at most 2^-8 of the number.
    const at::Tensor most = exact[i].abs() / 256 * 1.01 + 1e-7;
    EXPECT_TRUE((found[i].to(at::kDouble) - exact[i]).abs().le(most).all().item<bool>()) << i;
  }
}

TEST_F(SwigluTest, LimitsAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor gate = at::tensor({1e30F, -1e3F, 0.0F, std::nanf(""), 2.0F});
  const at::Tensor up = at::tensor({2.0F, 5.0F, 5.0F, 1.0F, infinity});
  const auto found = pass(gate, up, at::ones_like(gate));
  const at::Tensor y = found[2];
  EXPECT_EQ(y[0].item<float>(), 2e30F);
  EXPECT_NEAR(y[1].item<float>(), 0, 1e-30);
  EXPECT_EQ(y[2].item<float>(), 0);
  EXPECT_TRUE(std::isnan(y[3].item<float>()));
  EXPECT_EQ(y[4].item<float>(), infinity);
  EXPECT_EQ(found[0][0].item<float>(), 2);
  EXPECT_EQ(found[0][2].item<float>(), 2.5F);
}

TEST_F(SwigluTest, ThreadsDoNotChangeBits) {
  const at::Tensor gate = at::randn({3, 70000}), up = at::randn({3, 70000});
  const auto all = [&](int threads) {
    at::set_num_threads(threads);
    return pass(gate, up, gate);
  };
  const auto one = all(1), three = all(3);
  at::set_num_threads(1);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST_F(SwigluTest, OtherTensorsTakeTheReference) {
  const at::Tensor gate = at::randn({6, 8}).requires_grad_(), up = at::randn({6, 8});
  const auto fused = [](const at::Tensor& a, const at::Tensor& b) {
    return swiglu(a, b).grad_fn()->name().find("OnCpu") != std::string::npos;
  };
  EXPECT_TRUE(fused(gate, up));
  EXPECT_FALSE(fused(gate.t(), up.t()));
  EXPECT_FALSE(fused(gate.to(at::kDouble), up.to(at::kDouble)));
  use_kernels(Kernels::kReference);
  EXPECT_FALSE(fused(gate, up));
}

}  // namespace
}  // namespace accel::swiglu_test
