#include "train/tasks/cart_pole.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/task.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::cart_pole_test {
namespace {

/// Pushes to the side the pole falls to, or always to one.
class Policy final : public Model {
 public:
  explicit Policy(bool looks) : looks_(looks) {}

  at::Tensor forward(const at::Tensor& states) override {
    const at::Tensor falls = states.select(1, 2).add(states.select(1, 3));
    const at::Tensor right = looks_ ? falls.mul(1000) : at::full({states.size(0)}, 1000.0F);
    return at::full({states.size(0), 1}, 0.0F)
        .add(right.unsqueeze(1).mul(at::tensor({0.0F, 1.0F})));
  }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "reinforce"; }

 private:
  bool looks_;
};

Batch upright(int64_t count) {
  return numbered_batch(at::full({count, 4}, 0.01F), at::full({count}, 0));
}

std::unique_ptr<Task> reinforce(const std::string& more = "") {
  TaskContext context;
  context.data.input = {4};
  return build<Task>("{type: reinforce" + more + "}", context);
}

TEST(CartPoleTest, APushMovesTheCartAndTipsThePoleTheOtherWay) {
  CartPole cart({0, 0, 0, 0});
  EXPECT_TRUE(cart.push(true));
  // By hand: 10 N on 1.1 kg, a pole of 0.5 m half its length; speeds act from the next step on.
  const double push = 10 / 1.1, turning = -push / (0.5 * (4.0 / 3.0 - 0.1 / 1.1));
  EXPECT_DOUBLE_EQ(cart.state()[0], 0);
  EXPECT_DOUBLE_EQ(cart.state()[1], 0.02 * (push - 0.05 * turning / 1.1));
  EXPECT_DOUBLE_EQ(cart.state()[3], 0.02 * turning);
  CartPole mirrored({0, 0, 0, 0});
  mirrored.push(false);
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(mirrored.state()[i], -cart.state()[i]);
}

TEST(CartPoleTest, ItIsOverWhenThePoleHasTippedOrTheCartIsGone) {
  EXPECT_FALSE(CartPole({0, 0, 0.3, 0}).push(true));
  EXPECT_FALSE(CartPole({2.5, 0, 0, 0}).push(true));
  EXPECT_TRUE(CartPole({2.3, 0, 0.2, 0}).push(true));
}

TEST(ReinforceTest, APolicyThatLooksStandsLongerThanOneThatDoesNot) {
  Policy looks(true), pushes(false);
  const auto task = reinforce(", limit: 60");
  EXPECT_NEAR(task->evaluate(looks, upright(2)).loss.item<double>(), 0, 1e-6);
  EXPECT_GT(task->evaluate(pushes, upright(2)).loss.item<double>(), 0.7);
}

TEST(ReinforceTest, ACertainPolicyHasNothingToLearn) {
  // Its actions are certain, so the logarithm of their chance is 0.
  Policy pushes(false);
  EXPECT_EQ(std::abs(reinforce()->loss(pushes, upright(2)).item<double>()), 0);
}

TEST(ReinforceTest, EarlierReturnsAreItsState) {
  const auto task = reinforce();
  StateDict state = task->state();
  EXPECT_EQ(state.numbers.at("known"), 0);
  state.numbers = {{"known", 1}, {"mean", 2.5}, {"square", 9}};
  task->load(state);
  EXPECT_EQ(task->state().numbers, state.numbers);
  state.numbers.erase("mean");
  try {
    task->load(state);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "the checkpoint has no 'mean' of the task 'reinforce'");
  }
}

TEST(ReinforceTest, OtherDataIsRefused) {
  TaskContext context;
  context.data.input = {3};
  EXPECT_EQ(complaint<Task>("reinforce", context),
            "the task 'reinforce' needs samples of 4 F32 numbers, a cart-pole state, not [3]");
}

}  // namespace
}  // namespace accel::cart_pole_test
