#include "kernels/gelu.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <limits>

#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::gelu_test {
namespace {

class GeluTest : public testing::Test {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

/// Of the sum of `y` by `x`.
at::Tensor slope(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y}, {x}, {at::ones(y.sizes(), y.options())})[0];
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST_F(GeluTest, ValuesAndSlopesAreThoseOfTheExactFunction) {
  const at::Tensor x = at::linspace(-30, 30, 100003).requires_grad_();
  const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_();
  const at::Tensor y = gelu_tanh(x), exact_y = at::gelu(exact, "tanh");
  EXPECT_LT(distance(y.detach() / x.detach().abs().clamp_min(1),
                     exact_y.detach() / exact.detach().abs().clamp_min(1)),
            2e-7);
  EXPECT_LT(distance(slope(y, x), slope(exact_y, exact)), 1e-6);
}

TEST_F(GeluTest, LimitsAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor y = gelu_tanh(at::tensor({infinity, 1e30F, -1e3F, 0.0F, std::nanf("")}));
  EXPECT_EQ(y[0].item<float>(), infinity);
  EXPECT_EQ(y[1].item<float>(), 1e30F);
  EXPECT_NEAR(y[2].item<float>(), 0, 1e-30);
  EXPECT_EQ(y[3].item<float>(), 0);
  EXPECT_TRUE(std::isnan(y[4].item<float>()));
}

TEST_F(GeluTest, ThreadsDoNotChangeBits) {
  const at::Tensor x = at::linspace(-5, 5, 300001).requires_grad_();
  at::set_num_threads(1);
  const at::Tensor one = gelu_tanh(x), slope_of_one = slope(one, x);
  at::set_num_threads(3);
  const at::Tensor three = gelu_tanh(x);
  EXPECT_TRUE(three.equal(one));
  EXPECT_TRUE(slope(three, x).equal(slope_of_one));
}

TEST_F(GeluTest, OtherTypesAndLayoutsAreTheReferences) {
  const at::Tensor x = at::linspace(-5, 5, 64).view({8, 8});
  EXPECT_TRUE(gelu_tanh(x.t()).equal(at::gelu(x.t(), "tanh")));
  for (const at::ScalarType type : {at::kDouble, at::kHalf}) {
    EXPECT_TRUE(gelu_tanh(x.to(type)).equal(at::gelu(x.to(type), "tanh"))) << type;
  }
  EXPECT_FALSE(gelu_tanh(x).equal(at::gelu(x, "tanh")));  // this one is the kernel's
  const ReferenceKernels here;
  EXPECT_TRUE(gelu_tanh(x).equal(at::gelu(x, "tanh")));
}

/// Of each number with the 8 bits that a bfloat16 has, the nearest or its neighbour.
void expect_rounded(const at::Tensor& found, const at::Tensor& exact) {
  ASSERT_EQ(found.scalar_type(), at::kBFloat16);
  const at::Tensor nearest = exact.to(at::kBFloat16).to(at::kDouble);
  const at::Tensor apart = (found.to(at::kDouble) - nearest).abs();
  EXPECT_LE((apart - nearest.abs() / 128).max().item<double>(), 1e-6);
  const at::Tensor is_nearest = at::logical_or(apart == 0, nearest.abs() < 1e-6);
  EXPECT_GT(is_nearest.to(at::kDouble).mean().item<double>(), 0.999);
}

TEST_F(GeluTest, OfBfloat16IsRounded) {
  const at::Tensor x = at::linspace(-12, 12, 100003).to(at::kBFloat16).requires_grad_();
  const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_();
  const at::Tensor y = gelu_tanh(x), exact_y = at::gelu(exact, "tanh");
  EXPECT_EQ(y.grad_fn()->name().find("GeluBackward"), std::string::npos);
  expect_rounded(y.detach(), exact_y.detach());
  expect_rounded(slope(y, x), slope(exact_y, exact));
}

TEST_F(GeluTest, LimitsAndNanOfBfloat16) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor x = at::tensor({infinity, 3e38F, -1e3F, 0.0F, std::nanf("")});
  const at::Tensor y = gelu_tanh(x.to(at::kBFloat16)).to(at::kFloat);
  EXPECT_EQ(y[0].item<float>(), infinity);
  EXPECT_TRUE(y[1].equal(x[1].to(at::kBFloat16).to(at::kFloat)));
  EXPECT_NEAR(y[2].item<float>(), 0, 1e-30);
  EXPECT_EQ(y[3].item<float>(), 0);
  EXPECT_TRUE(std::isnan(y[4].item<float>()));
}

TEST_F(GeluTest, AGradientThatIsNotContiguous) {
  const at::Tensor x = at::linspace(-3, 3, 12).view({3, 4}).requires_grad_();
  const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_();
  const at::Tensor weights = at::linspace(1, 2, 12).view({4, 3});
  const at::Tensor found = torch::autograd::grad({gelu_tanh(x).t()}, {x}, {weights})[0];
  const at::Tensor wanted =
      torch::autograd::grad({at::gelu(exact, "tanh").t()}, {exact}, {weights.to(at::kDouble)})[0];
  EXPECT_LT(distance(found, wanted), 1e-6);
}

}  // namespace
}  // namespace accel::gelu_test
