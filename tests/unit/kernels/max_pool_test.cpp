#include "kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randint_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <limits>

#include "kernels/cpu_operators.h"

namespace accel::max_pool_test {
namespace {

class MaxPoolTest : public testing::TestWithParam<PoolSizes> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override {
    use_kernels(Kernels::kReference);
    at::set_num_threads(1);
  }
};

at::Tensor reference(const at::Tensor& x, PoolSizes sizes) {
  return at::max_pool2d(x, {sizes.window, sizes.window}, {sizes.stride, sizes.stride},
                        {sizes.padding, sizes.padding});
}

/// Whether values and slopes have the reference's bits, NaN being like NaN.
void expect_same(const at::Tensor& x, PoolSizes sizes) {
  const at::Tensor ours = x.detach().requires_grad_(), theirs = x.detach().requires_grad_();
  const at::Tensor y = max_pool(ours, sizes), wanted = reference(theirs, sizes);
  ASSERT_EQ(y.grad_fn()->name().find("MaxPool2DWithIndices"), std::string::npos);
  ASSERT_EQ(y.sizes(), wanted.sizes());
  EXPECT_TRUE(y.nan_to_num(-7).equal(wanted.nan_to_num(-7)));
  const at::Tensor weights = at::rand_like(y);
  EXPECT_TRUE(torch::autograd::grad({y}, {ours}, {weights})[0].equal(
      torch::autograd::grad({wanted}, {theirs}, {weights})[0]));
}

TEST_P(MaxPoolTest, HasTheReferencesBits) {
  at::manual_seed(3);
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
           {3, 3}, {8, 8}, {7, 33}, {29, 5}, {150, 24}, {5, 1023}, {5, 1026}}) {
    // Few values, so that windows have several that are largest.
    expect_same(at::randint(-3, 4, {2, 9, height, width}).to(at::kFloat), GetParam());
  }
}

TEST_P(MaxPoolTest, NothingFiniteAndNothingANumber) {
  at::manual_seed(4);
  at::Tensor x = at::randint(0, 3, {1, 2, 9, 11}).to(at::kFloat);
  x.masked_fill_(x == 1, -std::numeric_limits<float>::infinity());
  x.masked_fill_(at::rand_like(x) < 0.4, std::nanf(""));
  x.select(1, 1).fill_(-std::numeric_limits<float>::infinity());
  expect_same(x, GetParam());
}

/// The reference's, which are compared, too: those of a maximum do not depend on threads.
TEST_P(MaxPoolTest, ThreadsDoNotChangeBits) {
  at::manual_seed(6);
  at::set_num_threads(3);
  expect_same(at::randint(-3, 4, {5, 9, 8, 12}).to(at::kFloat), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sizes, MaxPoolTest,
                         testing::Values(PoolSizes{2, 2}, PoolSizes{3, 2, 1}, PoolSizes{3, 1, 1},
                                         PoolSizes{3, 3}, PoolSizes{2, 1}, PoolSizes{2, 3, 1}),
                         [](const auto& info) {
                           return std::to_string(info.param.window) + "_by_" +
                                  std::to_string(info.param.stride) + "_padded_" +
                                  std::to_string(info.param.padding);
                         });

TEST_P(MaxPoolTest, SixteenBitsAreTheReferences) {
  at::manual_seed(8);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::randint(-3, 4, {2, 9, 7, 33}).to(type);
    const at::Tensor ours = x.detach().requires_grad_(), theirs = x.detach().requires_grad_();
    const at::Tensor y = max_pool(ours, GetParam()), wanted = reference(theirs, GetParam());
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_TRUE(y.equal(wanted));
    // Whole numbers, whose sums are exact.
    const at::Tensor weights = at::randint_like(y, 0, 9);
    const at::Tensor slope = torch::autograd::grad({y}, {ours}, {weights})[0];
    EXPECT_EQ(slope.scalar_type(), type);
    EXPECT_TRUE(slope.equal(torch::autograd::grad({wanted}, {theirs}, {weights})[0]));
  }
}

TEST_F(MaxPoolTest, WhatTheKernelDoesNotTakeIsTheReferences) {
  const at::Tensor x = at::rand({2, 3, 8, 8});
  for (const at::Tensor& other : {x.to(at::kDouble), x.transpose(2, 3), x[0]}) {
    EXPECT_TRUE(max_pool(other, {2, 2}).equal(reference(other, {2, 2})));
  }
  EXPECT_TRUE(max_pool(x, {5, 4}).equal(reference(x, {5, 4})));
  EXPECT_THROW(max_pool(x, {9, 1}), c10::Error);
}

}  // namespace
}  // namespace accel::max_pool_test
