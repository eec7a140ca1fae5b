#include "parallel/split_backward.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <vector>

namespace accel {
namespace {

at::Tensor leaf(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().view(shape).requires_grad_();
}

/// A stage: a norm, two linear layers, and a residual.
struct Stage {
  at::Tensor norm = leaf({5}, 1), up = leaf({7, 5}, 2), bias = leaf({7}, 3), down = leaf({5, 7}, 4);

  at::Tensor run(const at::Tensor& x) const {
    return x.add(at::linear(at::linear(at::layer_norm(x, {5}, norm), up, bias).sin(), down));
  }
  std::vector<at::Tensor> weights() const { return {norm, up, bias, down}; }
};

void expect_same_gradients(const std::vector<at::Tensor>& wanted,
                           const std::vector<at::Tensor>& found) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::equal(wanted[i].grad(), found[i].grad())) << i;
  }
}

TEST(SplitBackwardTest, BothHalvesHaveTheBitsOfOnePass) {
  const Stage whole, split;
  const at::Tensor gradient = leaf({3, 5}, 9).detach();
  for (int64_t pass = 0; pass < 3; ++pass) {  // gradients accumulate
    const at::Tensor x = leaf({3, 5}, 20 + pass), y = leaf({3, 5}, 20 + pass);
    whole.run(x).backward(gradient);
    SplitBackward halves;
    const at::Tensor found = halves.run_input(split.run(y), gradient, y);
    EXPECT_TRUE(at::equal(found, x.grad()));
    EXPECT_FALSE(y.grad().defined());
    halves.run_weights();
    expect_same_gradients(whole.weights(), split.weights());
  }
}

TEST(SplitBackwardTest, TheFirstHalfLeavesWeightsAlone) {
  const Stage stage;
  const at::Tensor x = leaf({3, 5}, 20);
  SplitBackward halves;
  halves.run_input(stage.run(x).sum(), {}, x);
  for (const at::Tensor& weight : stage.weights()) EXPECT_FALSE(weight.grad().defined());
}

TEST(SplitBackwardTest, LeavesBelowAComputedInputAreWeightsToo) {
  const Stage whole, split;
  const at::Tensor table = leaf({4, 5}, 30), other = leaf({4, 5}, 30);
  const at::Tensor tokens = at::arange(3, at::kLong);
  whole.run(at::embedding(table, tokens).tanh()).sum().backward();
  const at::Tensor input = at::embedding(other, tokens).tanh();
  SplitBackward halves;
  halves.run_input(split.run(input).sum(), {}, input);
  EXPECT_FALSE(other.grad().defined());
  halves.run_weights();
  expect_same_gradients(whole.weights(), split.weights());
  EXPECT_TRUE(at::equal(table.grad(), other.grad()));
}

TEST(SplitBackwardTest, FrozenWeightsGetNoGradient) {
  Stage stage;
  stage.up.requires_grad_(false);
  const at::Tensor x = leaf({3, 5}, 20);
  SplitBackward halves;
  EXPECT_TRUE(halves.run_input(stage.run(x).sum(), {}, x).defined());
  halves.run_weights();
  EXPECT_FALSE(stage.up.grad().defined());
  EXPECT_TRUE(stage.bias.grad().defined());
}

TEST(SplitBackwardTest, WithoutAGradientOfTheInputTheSecondHalfIsAll) {
  const Stage whole, split;
  const at::Tensor x = leaf({3, 5}, 20).detach();
  whole.run(x).sum().backward();
  SplitBackward halves;
  EXPECT_FALSE(halves.run_input(split.run(x).sum(), {}, x).defined());
  halves.run_weights();
  expect_same_gradients(whole.weights(), split.weights());
}

TEST(SplitBackwardTest, AnOutputThatDoesNotDependOnTheInputHasNoGradient) {
  const at::Tensor x = leaf({3}, 1), weight = leaf({3}, 2);
  SplitBackward halves;
  EXPECT_FALSE(halves.run_input(weight.sum(), {}, x).defined());
}

}  // namespace
}  // namespace accel
