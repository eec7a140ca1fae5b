// Delayed scaling: histories, scales and their state.
#include "kernels/fp8/delayed_scales.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "kernels/fp8/fp8_linear.h"
#include "kernels/fp8/fp8_matrix.h"

namespace accel::delayed_scales_test {
namespace {

void alone(const at::Tensor& /*amax*/) {}

/// One step with the magnitudes of one layer.
void step(DelayedScales& scales, const std::vector<float>& amax) {
  const DelayedScalesOfLayer layer = scales.of_layer(0);
  for (size_t i = 0; i < amax.size(); ++i) layer[i].amax.fill_(amax[i]);
  scales.update(&alone);
}

std::vector<float> scales_of(const DelayedScales& scales, size_t layer = 0) {
  std::vector<float> out;
  for (const DelayedScale& item : scales.of_layer(layer)) out.push_back(item.scale.item<float>());
  return out;
}

TEST(DelayedScalesTest, TheNextScaleIsOfTheMostRecentMagnitude) {
  DelayedScales scales({.amax_history_len = 4}, {"a"}, at::kCPU);
  EXPECT_EQ(scales_of(scales), (std::vector<float>{1, 1, 1}));
  step(scales, {2, 4, 8});
  EXPECT_EQ(scales_of(scales), (std::vector<float>{224, 112, 7168}));
  step(scales, {1, 4, 0});  // nothing recorded: the scale stays
  EXPECT_EQ(scales_of(scales), (std::vector<float>{448, 112, 7168}));
}

TEST(DelayedScalesTest, MaxIsThatOfTheHistory) {
  DelayedScales scales({.amax_history_len = 3, .amax_compute_algo = AmaxAlgorithm::kMax}, {"a"},
                       at::kCPU);
  std::vector<float> inputs;
  for (const float amax : {4.0F, 2.0F, 1.0F, 1.0F, 1.0F}) {
    step(scales, {amax, 1, 1});
    inputs.push_back(448 / scales_of(scales)[0]);
  }
  // A history of three: this step and the two before it.
  EXPECT_EQ(inputs, (std::vector<float>{4, 4, 4, 2, 1}));
}

TEST(DelayedScalesTest, MarginAndIntervalAreTransformerEngines) {
  DelayedScales scales({.margin = 2, .interval = 2}, {"a"}, at::kCPU);
  step(scales, {1, 1, 1});
  EXPECT_EQ(scales_of(scales)[0], 1);
  step(scales, {1, 1, 1});
  EXPECT_EQ(scales_of(scales)[0], 112);
  EXPECT_EQ(scales_of(scales)[2], 14336);
}

TEST(DelayedScalesTest, FormatE4m3IsOfGradientsToo) {
  DelayedScales scales({.format = Fp8Format::kE4m3}, {"a"}, at::kCPU);
  step(scales, {1, 1, 1});
  EXPECT_EQ(scales_of(scales), (std::vector<float>{448, 448, 448}));
}

TEST(DelayedScalesTest, ATinyMagnitudeGivesTheLargestFloat) {
  DelayedScales scales({}, {"a"}, at::kCPU);
  step(scales, {1e-40F, 1, 1});
  EXPECT_EQ(scales_of(scales)[0], std::numeric_limits<float>::max());
}

TEST(DelayedScalesTest, MagnitudesAreReducedOverRanks) {
  DelayedScales scales({}, {"a"}, at::kCPU);
  scales.update([](const at::Tensor& amax) { amax.copy_(at::tensor({2.0F, 4.0F, 8.0F})); });
  EXPECT_EQ(scales_of(scales), (std::vector<float>{224, 112, 7168}));
}

TEST(DelayedScalesTest, TheStateIsRestored) {
  const DelayedOptions options{
      .interval = 2, .amax_history_len = 3, .amax_compute_algo = AmaxAlgorithm::kMax};
  DelayedScales one(options, {"a", "b"}, at::kCPU), other(options, {"a", "b"}, at::kCPU);
  for (const float amax : {5.0F, 3.0F, 2.0F}) step(one, {amax, 1, amax});
  StateDict state;
  one.save(state);
  EXPECT_TRUE(other.load(state).empty());
  for (const float amax : {1.0F, 0.5F, 0.25F}) {
    step(one, {amax, 1, amax});
    step(other, {amax, 1, amax});
    EXPECT_EQ(scales_of(one), scales_of(other));
    EXPECT_EQ(scales_of(one, 1), scales_of(other, 1));
  }
}

TEST(DelayedScalesTest, LayersWithoutStateAreNamed) {
  DelayedScales one({}, {"a"}, at::kCPU), other({}, {"a", "b"}, at::kCPU);
  StateDict state;
  one.save(state);
  EXPECT_EQ(other.load(state), std::vector<std::string>{"b"});
  DelayedScales shorter({.amax_history_len = 8}, {"a"}, at::kCPU);
  try {
    shorter.load(state);
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "the fp8 history of 'a' has the shape [1024, 3], not [8, 3]");
    EXPECT_EQ(error.hint(), "restore 'accelerator.fp8.amax_history_len' of the checkpoint");
  }
}

/// A layer whose inputs grow by `growth` a step: the error of the last output, and the part of the
/// input that saturates.
std::pair<double, double> growing(double growth) {
  DelayedScales scales({}, {"a"}, at::kCPU);
  auto layer = std::make_shared<Fp8Layer>();
  layer->recipe = Fp8Recipe::kDelayed;
  layer->delayed = scales.of_layer(0);
  at::manual_seed(3);
  const at::Tensor w = at::randn({384, 512});
  double error = 0, saturated = 0;
  for (int i = 0; i < 8; ++i) {
    const at::Tensor x = at::randn({256, 512}).mul(std::pow(growth, i)).requires_grad_();
    const at::Tensor scaled = x.mul((*layer->delayed)[0].scale);
    saturated = scaled.abs().gt(448).to(at::kDouble).mean().item<double>();
    const at::Tensor q = cast_to_fp8(x, (*layer->delayed)[0].scale, at::kFloat8_e4m3fn);
    const at::Tensor near = q.to(at::kFloat).div((*layer->delayed)[0].scale);
    error = at::linalg_vector_norm(near.sub(x)).item<double>() /
            at::linalg_vector_norm(x).item<double>();
    const at::Tensor y = fp8_linear(x, w, layer);
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    y.sum().backward();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
    scales.update(&alone);
  }
  return {error, saturated};
}

TEST(DelayedScalesTest, GrowingMagnitudesSaturateAndStayFinite) {
  EXPECT_LT(growing(1.0).first, 0.028);
  EXPECT_LT(growing(1.1).first, 0.030);
  EXPECT_LT(growing(1.5).first, 0.057);
  const auto [error, saturated] = growing(2);
  EXPECT_LT(error, 0.13);
  EXPECT_GT(error, 0.06);
  EXPECT_LT(saturated, 0.06);
  EXPECT_GT(saturated, 0.01);
}

TEST(DelayedScalesTest, AnOverflowIsNotRecorded) {
  DelayedScales scales({}, {"a"}, at::kCPU);
  auto layer = std::make_shared<Fp8Layer>();
  layer->recipe = Fp8Recipe::kDelayed;
  layer->delayed = scales.of_layer(0);
  at::Tensor x = at::randn({16, 32});
  x[0][0] = std::numeric_limits<float>::infinity();
  const at::Tensor y = fp8_linear(x, at::randn({16, 32}), layer);
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 16);
  scales.update(&alone);
  EXPECT_EQ(scales_of(scales)[0], 1);
  EXPECT_GT(scales_of(scales)[1], 1);
}

TEST(DelayedScalesTest, EvaluationsRecordNothing) {
  DelayedScales scales({}, {"a"}, at::kCPU);
  auto layer = std::make_shared<Fp8Layer>();
  layer->recipe = Fp8Recipe::kDelayed;
  layer->delayed = scales.of_layer(0);
  const at::NoGradGuard no_grad;
  fp8_linear(at::randn({16, 32}), at::randn({16, 32}), layer);
  scales.update(&alone);
  EXPECT_EQ(scales_of(scales), (std::vector<float>{1, 1, 1}));
}

}  // namespace
}  // namespace accel::delayed_scales_test
