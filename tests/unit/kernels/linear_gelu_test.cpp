#include "kernels/gelu.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::linear_gelu_test {
namespace {

class LinearGeluTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(1);
  }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

at::Tensor reference(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::gelu(at::linear(x, weight, bias));
}

/// x, weight and bias that ask for gradients.
struct Leaves {
  at::Tensor x, weight, bias;

  Leaves in(at::ScalarType type) const {
    const auto of = [type](const at::Tensor& t) { return t.detach().to(type).requires_grad_(); };
    return {of(x), of(weight), of(bias)};
  }
  std::vector<at::Tensor> slopes(const at::Tensor& y, const at::Tensor& by) const {
    return torch::autograd::grad({y}, {x, weight, bias}, {by});
  }
};

Leaves drawn(at::IntArrayRef inputs, int64_t outputs) {
  return Leaves{at::randn(inputs), at::randn({outputs, inputs.back()}) / 4, at::randn({outputs})}
      .in(at::kFloat);
}

/// Numbers themselves, through a product that leaves them as they are.
at::Tensor through(const at::Tensor& numbers) {
  return linear_gelu(numbers.view({-1, 1}), at::eye(1), at::zeros({1})).flatten();
}

TEST_F(LinearGeluTest, ValuesAndSlopesAreThoseOfTheExactFunction) {
  const at::Tensor x = at::linspace(-30, 30, 100003).requires_grad_();
  const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_();
  const at::Tensor y = through(x), exact_y = at::gelu(exact);
  EXPECT_LT(distance(y.detach() / x.detach().abs().clamp_min(1),
                     exact_y.detach() / exact.detach().abs().clamp_min(1)),
            3e-7);
  const auto slope = [](const at::Tensor& of, const at::Tensor& at) {
    return torch::autograd::grad({of.sum()}, {at})[0];
  };
  EXPECT_LT(distance(slope(y, x), slope(exact_y, exact)), 1e-6);
}

TEST_F(LinearGeluTest, LimitsAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor x =
      at::tensor({infinity, 1e30F, 3e38F, -1e3F, 0.0F, std::nanf("")}).requires_grad_();
  const at::Tensor y = through(x);
  EXPECT_EQ(y[0].item<float>(), infinity);
  EXPECT_EQ(y[1].item<float>(), 1e30F);
  EXPECT_EQ(y[3].item<float>(), 0);
  EXPECT_EQ(y[4].item<float>(), 0);
  EXPECT_TRUE(std::isnan(y[5].item<float>()));
  const at::Tensor slope = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_EQ(slope[1].item<float>(), 1);
  EXPECT_EQ(slope[2].item<float>(), 1);
  EXPECT_EQ(slope[3].item<float>(), 0);
  EXPECT_EQ(slope[4].item<float>(), 0.5F);
}

TEST_F(LinearGeluTest, AllGradientsAreTheReferences) {
  for (const auto& inputs : {std::vector<int64_t>{1, 8}, {37, 8}, {3, 50, 8}, {700, 8}, {8}}) {
    for (const int64_t outputs : {1, 7, 96, 1000}) {
      const Leaves leaves = drawn(inputs, outputs), exact = leaves.in(at::kDouble);
      const at::Tensor y = linear_gelu(leaves.x, leaves.weight, leaves.bias);
      const at::Tensor exact_y = reference(exact.x, exact.weight, exact.bias);
      ASSERT_EQ(y.sizes(), exact_y.sizes());
      EXPECT_LT(distance(y, exact_y), 4e-6);
      const at::Tensor by = at::randn(y.sizes());
      const auto found = leaves.slopes(y, by), wanted = exact.slopes(exact_y, by.to(at::kDouble));
      for (size_t i = 0; i < found.size(); ++i) {
        const double most = std::max(1.0, wanted[i].abs().max().item<double>());
        EXPECT_LT(distance(found[i], wanted[i]) / most, 5e-6) << i << " " << y.sizes();
      }
    }
  }
}

TEST_F(LinearGeluTest, ThreadsDoNotChangeBits) {
  const Leaves leaves = drawn({600, 8}, 300);
  const at::Tensor product = at::linear(leaves.x, leaves.weight).detach();
  const at::Tensor by = at::randn(product.sizes());
  const auto all = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor x = product.clone().requires_grad_();
    const at::Tensor y = linear_gelu(x, at::eye(300), leaves.bias);
    std::vector<at::Tensor> out = torch::autograd::grad({y}, {leaves.bias}, {by});
    out.push_back(y.detach());
    return out;
  };
  const auto one = all(1), three = all(3);
  EXPECT_TRUE(one[0].equal(three[0]));
  EXPECT_TRUE(one[1].equal(three[1]));
}

TEST_F(LinearGeluTest, AGradientAndAnInputThatAreNotContiguous) {
  const Leaves leaves = drawn({6, 8}, 5), exact = leaves.in(at::kDouble);
  const at::Tensor by = at::randn({5, 6});
  const at::Tensor x = leaves.x.t().contiguous().t();
  const at::Tensor y = linear_gelu(x, leaves.weight, leaves.bias).t();
  const at::Tensor exact_y = reference(exact.x, exact.weight, exact.bias).t();
  const auto found = leaves.slopes(y, by), wanted = exact.slopes(exact_y, by.to(at::kDouble));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(distance(found[i], wanted[i]), 1e-5) << i;
}

TEST_F(LinearGeluTest, OtherwiseItIsTheReference) {
  const Leaves leaves = drawn({40, 8}, 30);
  const auto equal = [](const Leaves& of) {
    return linear_gelu(of.x, of.weight, of.bias).equal(reference(of.x, of.weight, of.bias));
  };
  EXPECT_FALSE(equal(leaves));  // this one is the kernel's
  EXPECT_TRUE(equal(leaves.in(at::kDouble)));
  EXPECT_TRUE(equal(leaves.in(at::kBFloat16)));
  EXPECT_TRUE(equal({leaves.x, leaves.weight, at::Tensor()}));
  EXPECT_EQ(linear_gelu(at::zeros({0, 8}), leaves.weight, leaves.bias).sizes(),
            (at::IntArrayRef{0, 30}));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const bool cast = equal(leaves);
  const at::ScalarType type = linear_gelu(leaves.x, leaves.weight, leaves.bias).scalar_type();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_TRUE(cast);
  EXPECT_EQ(type, at::kBFloat16);
  const ReferenceKernels here;
  EXPECT_TRUE(equal(leaves));
}

}  // namespace
}  // namespace accel::linear_gelu_test
