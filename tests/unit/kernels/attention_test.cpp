#include "kernels/attention.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/base/array.h"
#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::attention_test {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct AttentionCase {
  std::string name;
  Shape queries;  // batch, heads, length, width
  int64_t keys;
  bool is_causal = false;
  Shape mask = {};
  std::optional<double> scale = {};
};

const AttentionCase kAttentionCases[] = {
    {"Plain", {2, 3, 17, 8}, 17},
    {"OneSequenceAndHead", {1, 1, 70, 16}, 70},
    {"OneHeadOfManyQueries", {1, 1, 2000, 64}, 60},
    {"FewQueries", {2, 2, 5, 16}, 40},
    {"FewKeys", {2, 2, 40, 16}, 5},
    {"OneKey", {2, 2, 3, 4}, 1},
    {"BlocksOfQueries", {1, 2, 700, 8}, 300},
    {"OddWidth", {2, 2, 33, 37}, 35},
    {"WidthOfOne", {2, 2, 33, 1}, 35},
    {"Scale", {2, 2, 20, 8}, 20, false, {}, 0.5},
    {"Causal", {2, 3, 17, 8}, 17, true},
    {"CausalBlocks", {1, 2, 150, 8}, 150, true},
    {"CausalAndLong", {1, 2, 1200, 64}, 1200, true},
    {"CausalWithMoreKeys", {1, 2, 70, 8}, 150, true},
    {"CausalWithMoreQueries", {1, 2, 150, 8}, 70, true},
    {"MaskOfTwoDimensions", {2, 3, 17, 8}, 19, false, {17, 19}},
    {"MaskOfKeys", {2, 3, 17, 8}, 19, false, {2, 1, 1, 19}},
    {"MaskOfQueries", {2, 3, 17, 8}, 19, false, {17, 1}},
    {"MaskOfHeads", {2, 3, 17, 8}, 19, false, {1, 3, 17, 19}},
    {"MaskInBlocks", {1, 2, 700, 8}, 300, false, {1, 2, 700, 300}},
    {"MaskAndCausal", {2, 3, 17, 8}, 17, true, {17, 17}},
};

/// What ATen's models make: heads beside each other in memory.
at::Tensor drawn(const Shape& queries, int64_t length) {
  return at::randn({queries[0], length, queries[1], queries[3]}).transpose(1, 2);
}

struct Inputs {
  explicit Inputs(const AttentionCase& of, uint64_t seed = 7) {
    at::manual_seed(seed);
    query = drawn(of.queries, of.queries[2]);
    key = drawn(of.queries, of.keys);
    value = drawn(of.queries, of.keys);
    slope = drawn(of.queries, of.queries[2]);
    if (!of.mask.empty()) mask = at::randn(of.mask);
    is_causal = of.is_causal;
    scale = of.scale;
  }

  Inputs to(at::ScalarType type) const {
    Inputs other = *this;
    for (at::Tensor* each : {&other.query, &other.key, &other.value, &other.slope}) {
      *each = each->to(type);
    }
    if (mask) other.mask = mask->to(type);
    return other;
  }
  AttentionCall call() const { return {query, key, value, 0, is_causal, mask, scale}; }

  at::Tensor query, key, value, slope;
  std::optional<at::Tensor> mask;
  bool is_causal;
  std::optional<double> scale;
};

/// Of the kernels that are taken: results, logs and the three gradients.
Tensors passes(const Inputs& in) {
  const auto [out, logs] = at::_scaled_dot_product_flash_attention_for_cpu(
      in.query, in.key, in.value, 0, in.is_causal, in.mask, in.scale);
  const auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      in.slope, in.query, in.key, in.value, out, logs, 0, in.is_causal, in.mask, in.scale);
  return {out, logs, query, key, value};
}

Tensors reference_passes(const Inputs& in) {
  const ReferenceKernels reference;
  return passes(in);
}

/// As a share of the greatest, which is about 1.
double farthest(const at::Tensor& found, const at::Tensor& wanted) {
  const at::Tensor exact = wanted.to(at::kDouble);
  const at::Tensor apart = (found.to(at::kDouble) - exact).abs().max();
  return (apart / exact.abs().max().clamp_min(1)).item<double>();
}

class AttentionTest : public testing::TestWithParam<AttentionCase> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override {
    use_kernels(Kernels::kReference);
    at::set_num_threads(1);
  }
};

TEST_P(AttentionTest, IsWhatFloat64Gives) {
  const Inputs in(GetParam());
  ASSERT_TRUE(attends(in.call()));
  const Tensors found = passes(in), wanted = reference_passes(in.to(at::kDouble));
  const Tensors atens = reference_passes(in);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LT(farthest(found[i], wanted[i]), i < 2 ? 1e-6 : 1e-5) << i;
    EXPECT_EQ(found[i].sizes(), atens[i].sizes()) << i;
    EXPECT_EQ(found[i].strides(), atens[i].strides()) << i;
    EXPECT_EQ(found[i].scalar_type(), at::kFloat) << i;
  }
}

TEST_P(AttentionTest, ThreadsDoNotChangeBits) {
  const Inputs in(GetParam());
  at::set_num_threads(1);
  const Tensors one = passes(in);
  at::set_num_threads(2);
  for (int again = 0; again < 2; ++again) {
    const Tensors two = passes(in);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(two[i].equal(one[i])) << i;
  }
}

/// Of the sum of products with `slope`, by differences in float64.
TEST_P(AttentionTest, GradientsAreSlopes) {
  const Inputs in(GetParam());
  const Tensors found = passes(in);
  const Inputs exact = in.to(at::kDouble);
  at::manual_seed(11);
  for (size_t i = 0; i < 3; ++i) {
    constexpr double kStep = 1e-4;
    Inputs before = exact, after = exact;
    at::Tensor Inputs::*const input[] = {&Inputs::query, &Inputs::key, &Inputs::value};
    const at::Tensor way = at::randn((exact.*input[i]).sizes(), at::kDouble);
    before.*input[i] = exact.*input[i] - kStep * way;
    after.*input[i] = exact.*input[i] + kStep * way;
    const at::Tensor change = reference_passes(after)[0] - reference_passes(before)[0];
    const double wanted = (change * exact.slope).sum().item<double>() / (2 * kStep);
    const at::Tensor gradient = found[2 + i].to(at::kDouble);
    const double terms = (gradient * way).abs().sum().item<double>();
    EXPECT_NEAR((gradient * way).sum().item<double>(), wanted, 1e-5 * terms + 1e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionTest, testing::ValuesIn(kAttentionCases),
                         [](const auto& info) { return info.param.name; });

struct UntakenCase {
  std::string name;
  std::function<void(Inputs&)> change;
};

const UntakenCase kUntakenCases[] = {
    {"Float64", [](Inputs& in) { in = in.to(at::kDouble); }},
    {"OneQuery",
     [](Inputs& in) {
       in.query = in.query.narrow(2, 0, 1);
       in.slope = in.slope.narrow(2, 0, 1);
     }},
    {"ManyKeys",
     [](Inputs& in) {
       in.key = drawn({2, 3, 18, 8}, 513);
       in.value = drawn({2, 3, 18, 8}, 513);
       in.mask = {};
     }},
    {"ManyKeysOfCausalOnes",
     [](Inputs& in) {
       in.key = drawn({2, 3, 18, 8}, 2049);
       in.value = drawn({2, 3, 18, 8}, 2049);
       in.mask = {};
       in.is_causal = true;
     }},
};

class UntakenAttentionTest : public testing::TestWithParam<UntakenCase> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

TEST_P(UntakenAttentionTest, IsTheReferences) {
  Inputs in({"", {2, 3, 18, 8}, 18, false, {1, 18}});
  ASSERT_TRUE(attends(in.call()));
  GetParam().change(in);
  EXPECT_FALSE(attends(in.call()));
  const Tensors found = passes(in), wanted = reference_passes(in);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, UntakenAttentionTest, testing::ValuesIn(kUntakenCases),
                         [](const auto& info) { return info.param.name; });

TEST(AttentionCallTest, WhatDoesNotFitIsNotTaken) {
  const Inputs in({"", {2, 3, 18, 8}, 18});
  Inputs other = in;
  other.key = in.key.transpose(2, 3).contiguous().transpose(2, 3);
  EXPECT_FALSE(attends(other.call()));
  other = in;
  other.value = in.value.narrow(3, 0, 4);
  EXPECT_FALSE(attends(other.call()));
  other = in;
  other.key = other.value = in.key.narrow(1, 0, 1);
  EXPECT_FALSE(attends(other.call()));
  other = in;
  other.mask = at::zeros({18, 17});
  EXPECT_FALSE(attends(other.call()));
  other = in;
  other.mask = at::zeros({18, 18}, at::kDouble);
  EXPECT_FALSE(attends(other.call()));
  EXPECT_FALSE(attends({in.query, in.key, in.value, 0.1, false, in.mask, in.scale}));
}

class AttentionRowsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }

  static Inputs inputs() {
    return Inputs({"", {2, 2, 9, 8}, 9, GetParam(), GetParam() ? Shape{} : Shape{2, 1, 9, 9}});
  }
  /// As float64 gives, NaN and infinities too.
  static void expect_exact(const Inputs& in, double within = 1e-5) {
    ASSERT_TRUE(attends(in.call()));
    const Tensors found = passes(in), wanted = reference_passes(in.to(at::kDouble));
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), wanted[i], within, within, true)) << i;
    }
  }
};

TEST_P(AttentionRowsTest, RowsThatSeeNothingAreZeros) {
  Inputs in = inputs();
  in.mask = at::randn({2, 1, 9, 9});
  in.mask->select(0, 1).select(1, 0).fill_(-kInfinity);
  in.mask->select(0, 0).select(2, 3).fill_(-kInfinity);
  expect_exact(in);
  const Tensors found = passes(in);
  EXPECT_EQ(found[0].select(0, 1).select(1, 0).abs().max().item<float>(), 0);
  EXPECT_EQ(found[2].select(0, 1).select(1, 0).abs().max().item<float>(), 0);
  EXPECT_EQ(found[4].select(0, 0).select(1, 3).abs().max().item<float>(), 0);
}

TEST_P(AttentionRowsTest, NanAndInfinitiesStay) {
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (at::Tensor Inputs::*const input : {&Inputs::query, &Inputs::key, &Inputs::value}) {
      Inputs in = inputs();
      (in.*input)[0][1][4][2] = bad;
      expect_exact(in);
    }
  }
}

TEST_P(AttentionRowsTest, GreatScoresDoNotOverflow) {
  Inputs in = inputs();
  in.query = (in.query * 10).round();
  in.key = (in.key * 10).round();
  in.mask = {};
  in.scale = 1;
  expect_exact(in, 1e-3);
}

TEST_P(AttentionRowsTest, AGradientOfOneNumber) {
  Inputs in = inputs();
  in.slope = at::ones({1, 1, 1, 1}).expand_as(in.query);
  expect_exact(in);
}

TEST_P(AttentionRowsTest, PartsOfOneTensor) {
  Inputs in = inputs();
  const at::Tensor all = at::randn({2, 9, 3, 2, 8});
  in.query = all.select(2, 0).transpose(1, 2);
  in.key = all.select(2, 1).transpose(1, 2);
  in.value = all.select(2, 2).transpose(1, 2);
  expect_exact(in);
}

TEST_P(AttentionRowsTest, IsWhatModelsCall) {
  const Inputs in = inputs();
  const at::Tensor query = in.query.detach().requires_grad_();
  const at::Tensor y =
      at::scaled_dot_product_attention(query, in.key, in.value, in.mask, 0, in.is_causal);
  const at::Tensor slope = torch::autograd::grad({y}, {query}, {in.slope})[0];
  const Tensors found = passes(in);
  EXPECT_TRUE(y.equal(found[0]));
  EXPECT_TRUE(slope.equal(found[2]));
  EXPECT_FALSE(y.equal(reference_passes(in)[0]));
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionRowsTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Causal" : "Masked");
});

}  // namespace
}  // namespace accel::attention_test
