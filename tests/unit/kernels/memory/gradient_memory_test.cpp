#include "kernels/memory/gradient_memory.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/convolution.h"
#include "kernels/cpu_operators.h"
#include "kernels/winograd.h"

namespace accel::gradient_memory_test {
namespace {

bool is_part_of(const at::Tensor& gradient, const at::Tensor& memory) {
  return gradient.is_alias_of(memory) && gradient.data_ptr() == memory.data_ptr();
}

TEST(GradientMemoryTest, AnOfferIsTakenOnce) {
  const at::Tensor weight = at::ones({3, 4}), memory = at::zeros({12});
  GradientMemory offers;
  offers.offer(weight, memory);
  const at::Tensor first = gradient_memory(weight), second = gradient_memory(weight);
  EXPECT_TRUE(is_part_of(first, memory));
  EXPECT_EQ(first.sizes(), weight.sizes());
  EXPECT_FALSE(second.is_alias_of(memory));
  EXPECT_EQ(second.sizes(), weight.sizes());
}

TEST(GradientMemoryTest, AliasesOfTheWholeParameterTakeIt) {
  const at::Tensor flat = at::ones({20}), memory = at::zeros({12});
  const at::Tensor parameter = flat.narrow(0, 4, 12);
  GradientMemory offers;
  offers.offer(parameter, memory);
  EXPECT_FALSE(gradient_memory(flat).is_alias_of(memory));
  EXPECT_FALSE(gradient_memory(flat.narrow(0, 4, 11)).is_alias_of(memory));
  EXPECT_FALSE(gradient_memory(flat.narrow(0, 5, 12)).is_alias_of(memory));
  EXPECT_FALSE(gradient_memory(parameter.view({3, 4}).t()).is_alias_of(memory));
  EXPECT_FALSE(gradient_memory(parameter.view(at::kInt)).is_alias_of(memory));
  EXPECT_FALSE(gradient_memory(parameter.clone()).is_alias_of(memory));
  EXPECT_TRUE(is_part_of(gradient_memory(parameter.view({3, 4})), memory));
}

TEST(GradientMemoryTest, AnotherOfferReplacesIt) {
  const at::Tensor weight = at::ones({3}), before = at::zeros({3}), after = at::zeros({3});
  GradientMemory offers;
  offers.offer(weight, before);
  offers.offer(weight, after);
  EXPECT_TRUE(is_part_of(gradient_memory(weight), after));
  EXPECT_FALSE(gradient_memory(weight).is_alias_of(before));
}

TEST(GradientMemoryTest, AWithdrawnOfferIsNotTaken) {
  const at::Tensor weight = at::ones({3}), memory = at::zeros({3});
  GradientMemory offers;
  offers.offer(weight, memory);
  offers.withdraw();
  EXPECT_FALSE(gradient_memory(weight).is_alias_of(memory));
  { GradientMemory().offer(weight, memory); }
  EXPECT_FALSE(gradient_memory(weight).is_alias_of(memory));
}

struct ConvolutionCase {
  std::string name;
  std::vector<int64_t> x, weight, stride, padding;
};

/// Windows of each algorithm on the processors that use it, and of ATen's.
const ConvolutionCase kConvolutions[] = {
    {"FewWindows", {4, 64, 2, 2}, {256, 64, 3, 3}, {1, 1}, {1, 1}},
    {"ByImage", {16, 1, 28, 28}, {6, 1, 5, 5}, {1, 1}, {2, 2}},
    {"PointsWithSteps", {8, 32, 16, 16}, {48, 32, 1, 1}, {2, 2}, {0, 0}},
    {"Winograd", {16, 32, 16, 16}, {32, 32, 3, 3}, {1, 1}, {1, 1}},
    {"Strides", {8, 32, 16, 16}, {32, 32, 3, 3}, {2, 2}, {1, 1}},
};

class GradientMemoryOfConvolutionsTest : public testing::TestWithParam<ConvolutionCase> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

at::Tensor weight_gradient(const ConvolutionCase& of, const at::Tensor& x,
                           const at::Tensor& weight) {
  const at::Tensor y = at::conv2d(x, weight, {}, of.stride, of.padding);
  return torch::autograd::grad({(y * y).sum()}, {weight})[0];
}

TEST_P(GradientMemoryOfConvolutionsTest, HasTheSameBits) {
  at::manual_seed(3);
  const ConvolutionCase& of = GetParam();
  const at::Tensor x = at::randn(of.x), weight = at::randn(of.weight).requires_grad_();
  const at::Tensor wanted = weight_gradient(of, x, weight);
  const at::Tensor memory = at::full({weight.numel() + 2}, NAN);
  GradientMemory offers;
  offers.offer(weight, memory.narrow(0, 1, weight.numel()));
  EXPECT_TRUE(at::equal(weight_gradient(of, x, weight), wanted));
  EXPECT_TRUE(std::isnan(memory[0].item<float>()));
  EXPECT_TRUE(std::isnan(memory[-1].item<float>()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GradientMemoryOfConvolutionsTest, testing::ValuesIn(kConvolutions),
                         [](const auto& info) { return info.param.name; });

TEST(GradientMemoryTest, EachAlgorithmOfConvolutionsComputesThere) {
  constexpr std::array<bool, 3> kWeightAlone = {false, true, false};
  const std::vector<int64_t> one = {1, 1};
  const ConvolutionCall call = {one, one, one, false, {}, 1, kWeightAlone};
  const ImageWindows windows = {32, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {2, 2}};
  const at::Tensor x = at::randn({1, 32, 2, 2}), dy = at::randn({1, 64, 2, 2});
  const at::Tensor weight = at::randn({64, 32, 3, 3}), memory = at::zeros({weight.numel()});
  GradientMemory offers;
  const auto expect_there = [&](const auto& compute) {
    offers.offer(weight, memory);
    EXPECT_TRUE(is_part_of(std::get<1>(compute()), memory));
  };
  expect_there([&] { return convolve_by_products_backward(dy, x, weight, call); });
  expect_there([&] { return convolve_by_winograd_backward(dy, x, weight, windows, kWeightAlone); });
  expect_there([&] { return convolve_by_image_backward(dy, x, weight, windows, kWeightAlone); });
}

struct LinearCase {
  std::string name;
  std::vector<int64_t> x;
  int64_t out;
  bool has_bias;
};

const LinearCase kLinearLayers[] = {
    {"Matrix", {300, 40}, 60, true},
    {"WithoutBias", {300, 40}, 60, false},
    {"Tokens", {4, 75, 40}, 60, true},
    {"TokensWithoutBias", {4, 75, 40}, 60, false},
    {"AsManyRowsAsOutputs", {60, 40}, 60, true},
    {"AllSizesEqual", {40, 40}, 40, true},
    {"OneOutput", {30, 40}, 1, true},
    {"OneRow", {1, 40}, 30, false},
};

class GradientMemoryOfLinearLayersTest : public testing::TestWithParam<LinearCase> {
 protected:
  GradientMemoryOfLinearLayersTest() {
    use_kernels(Kernels::kFused);
    at::manual_seed(4);
    const LinearCase& of = GetParam();
    x_ = at::randn(of.x).requires_grad_();
    weight_ = at::randn({of.out, of.x.back()}).requires_grad_();
    if (of.has_bias) bias_ = at::randn({of.out});
    memory_ = at::full({weight_.numel()}, NAN);
  }
  ~GradientMemoryOfLinearLayersTest() override { use_kernels(Kernels::kReference); }

  at::Tensor loss() const { return at::linear(x_, weight_, bias_).sin().square().sum(); }

  at::Tensor x_, weight_, bias_, memory_;
};

TEST_P(GradientMemoryOfLinearLayersTest, HasTheirGradientAlone) {
  const auto wanted = torch::autograd::grad({loss()}, {x_, weight_});
  GradientMemory offers;
  offers.offer(weight_, memory_);
  const auto found = torch::autograd::grad({loss()}, {x_, weight_});
  EXPECT_TRUE(is_part_of(found[1], memory_));
  EXPECT_TRUE(found[1].is_contiguous());
  EXPECT_FALSE(found[0].is_alias_of(memory_));
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(found[i], wanted[i])) << i;
}

TEST_P(GradientMemoryOfLinearLayersTest, IsAccumulatedInto) {
  for (int pass = 0; pass < 2; ++pass) (loss() + loss()).backward();
  const at::Tensor wanted = weight_.grad();
  weight_.mutable_grad().reset();
  GradientMemory offers;
  offers.offer(weight_, memory_);
  for (int pass = 0; pass < 2; ++pass) (loss() + loss()).backward();
  EXPECT_TRUE(at::equal(weight_.grad(), wanted));
}

TEST_P(GradientMemoryOfLinearLayersTest, IsNotUsedForGradientsOfGradients) {
  GradientMemory offers;
  offers.offer(weight_, memory_);
  const at::Tensor gradient = torch::autograd::grad({loss()}, {weight_}, {}, {}, true)[0];
  EXPECT_FALSE(gradient.is_alias_of(memory_));
  EXPECT_TRUE(torch::autograd::grad({gradient.square().sum()}, {weight_})[0].defined());
}

INSTANTIATE_TEST_SUITE_P(Sizes, GradientMemoryOfLinearLayersTest, testing::ValuesIn(kLinearLayers),
                         [](const auto& info) { return info.param.name; });

TEST(GradientMemoryTest, IsNotUsedByCastWeights) {
  use_kernels(Kernels::kFused);
  const at::Tensor x = at::randn({60, 40}, at::kDouble);
  const at::Tensor weight = at::randn({60, 40}).requires_grad_(), memory = at::zeros({2400});
  GradientMemory offers;
  offers.offer(weight, memory);
  at::linear(x, weight.to(at::kDouble)).square().sum().backward();
  EXPECT_FALSE(weight.grad().is_alias_of(memory));
  EXPECT_TRUE(at::equal(memory, at::zeros({2400})));
  use_kernels(Kernels::kReference);
}

/// Products in float32 of processors without bfloat16, in any case.
TEST(GradientMemoryTest, GradientsOfSixteenBitWeightsHaveTheSameBits) {
  use_kernels(Kernels::kFused);
  const at::Tensor x = at::randn({60, 40}, at::kBFloat16);
  const at::Tensor weight = at::randn({50, 40}, at::kBFloat16).requires_grad_();
  const auto gradient = [&] {
    return torch::autograd::grad({at::linear(x, weight).square().sum()}, {weight})[0];
  };
  const at::Tensor wanted = gradient(), memory = at::zeros({2000}, at::kBFloat16);
  GradientMemory offers;
  offers.offer(weight, memory);
  EXPECT_TRUE(at::equal(gradient(), wanted));
  use_kernels(Kernels::kReference);
}

}  // namespace
}  // namespace accel::gradient_memory_test
