#include "kernels/rotate_pairs.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <string>

#include "kernels/cpu_operators.h"

namespace accel::rotate_pairs_test {
namespace {

struct PairsCase {
  std::string name;
  std::vector<int64_t> sizes;  ///< batch, length, heads, width: the layout of projections
  std::vector<int64_t> turns;  ///< of cosines and sines
};

const PairsCase kPairsCases[] = {
    {"Heads", {2, 5, 3, 8}, {5, 8}},
    {"PartOfAHead", {2, 5, 3, 24}, {5, 6}},
    {"OneOfEach", {1, 1, 1, 2}, {1, 2}},
    {"PositionsOfRows", {3, 7, 2, 64}, {3, 1, 7, 64}},
    {"SeveralThreads", {4, 300, 2, 80}, {300, 80}},
};

struct Passes {
  at::Tensor y, slope;
};

class RotatePairsTest : public testing::TestWithParam<PairsCase> {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    x_ = at::randn(GetParam().sizes);
    cosines_ = at::rand(GetParam().turns);
    sines_ = at::rand(GetParam().turns);
    by_ = at::randn(GetParam().sizes).transpose(1, 2);
  }
  void TearDown() override {
    use_kernels(Kernels::kReference);
    at::set_num_threads(1);
  }

  Passes pass(Kernels kernels) const {
    use_kernels(kernels);
    const at::Tensor x = x_.detach().requires_grad_();
    const at::Tensor y = rotate_pairs(x.transpose(1, 2), cosines_, sines_);
    return {y, torch::autograd::grad({y}, {x}, {by_})[0]};
  }

  at::Tensor x_, cosines_, sines_, by_;
};

TEST_P(RotatePairsTest, HasTheBitsOfTheReference) {
  const Passes wanted = pass(Kernels::kReference);
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const Passes found = pass(Kernels::kFused);
    EXPECT_NE(found.y.grad_fn()->name().find("OnCpu"), std::string::npos);
    EXPECT_EQ(found.y.sizes(), wanted.y.sizes());
    EXPECT_TRUE(found.y.equal(wanted.y));
    EXPECT_TRUE(found.slope.equal(wanted.slope));
  }
}

TEST_P(RotatePairsTest, OtherTensorsTakeTheReference) {
  use_kernels(Kernels::kFused);
  const at::Tensor x = x_.transpose(1, 2);
  const auto is_fused = [](const at::Tensor& y) {
    return y.grad_fn()->name().find("OnCpu") != std::string::npos;
  };
  const auto leaf = [](const at::Tensor& of) { return of.detach().requires_grad_(); };
  EXPECT_TRUE(is_fused(rotate_pairs(leaf(x), cosines_, sines_)));
  const at::Tensor wide = leaf(x.to(at::kDouble));
  EXPECT_FALSE(is_fused(rotate_pairs(wide, cosines_.to(at::kDouble), sines_.to(at::kDouble))));
  const at::Tensor half = rotate_pairs(leaf(x.to(at::kBFloat16)), cosines_, sines_);
  EXPECT_FALSE(is_fused(half));
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
}

INSTANTIATE_TEST_SUITE_P(Of, RotatePairsTest, testing::ValuesIn(kPairsCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accel::rotate_pairs_test
