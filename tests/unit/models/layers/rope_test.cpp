// Rotary positions: frequencies of each scaling by its formula, and partial rotation.
#include "models/layers/rope.h"

#include <ATen/ops/atan2.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

namespace accel::rope_test {
namespace {

/// Radians per position of each pair, in sequences of `longest` tokens.
at::Tensor speeds(const Rope& rope, int64_t longest) {
  const RopeTurns turns = rope.turns(1, 1, longest, at::kCPU);
  const at::Tensor angles = turns.sines.atan2(turns.cosines).flatten();
  return angles.narrow(0, 0, angles.size(0) / 2);
}

void expect_speeds(const RopeOptions& options, int64_t longest, const at::Tensor& wanted) {
  const at::Tensor found = speeds(Rope(options, 8), longest);
  EXPECT_TRUE(found.allclose(wanted, 1e-4, 1e-9)) << found << wanted;
}

TEST(RopeTest, YarnSlowsPairsWithFewTurns) {
  RopeOptions options;
  options.scaling = RopeScaling::kYarn;
  options.factor = 4;
  options.original_max_position_embeddings = 4096;
  // 32 turns in 4096 positions are between pairs 1 and 2, one turn between pairs 2 and 3.
  expect_speeds(options, 8, at::tensor({1.0, 0.1, 0.01 * (0.5 + 0.5 / 4), 0.001 / 4}, at::kFloat));
  const RopeTurns turns = Rope(options, 8).turns(0, 1, 1, at::kCPU);
  EXPECT_NEAR(turns.cosines[0][0].item<double>(), 0.1 * std::log(4) + 1, 1e-6);
  options.attention_factor = {1.0};
  EXPECT_EQ(Rope(options, 8).turns(0, 1, 1, at::kCPU).cosines[0][0].item<double>(), 1);
  options.truncate = false;  // the bounds are 1.309 and 2.814
  expect_speeds(options, 8, at::tensor({1.0, 0.1, 0.0065571, 0.001 / 4}, at::kFloat));
}

TEST(RopeTest, DynamicScalesThetaBeyondTheOriginalContext) {
  RopeOptions options;
  options.scaling = RopeScaling::kDynamic;
  options.factor = 4;
  options.original_max_position_embeddings = 64;
  expect_speeds(options, 64, at::tensor({1.0, 0.1, 0.01, 0.001}, at::kFloat));
  const double theta = 1e4 * std::pow(4.0 * 128 / 64 - 3, 8.0 / 6);
  expect_speeds(
      options, 128,
      at::tensor({1.0, std::pow(theta, -0.25), std::pow(theta, -0.5), std::pow(theta, -0.75)},
                 at::kFloat));
  const Rope rope(options, 8);
  EXPECT_FALSE(rope.changes_between(3, 64));
  EXPECT_TRUE(rope.changes_between(64, 65));
  EXPECT_TRUE(rope.changes_between(65, 66));
}

TEST(RopeTest, LongRopeHasTwoListsOfFactors) {
  RopeOptions options;
  options.scaling = RopeScaling::kLongRope;
  options.short_factor = {1, 2, 4, 8};
  options.long_factor = {2, 4, 5, 10};
  options.factor = 4;
  options.original_max_position_embeddings = 16;
  expect_speeds(options, 16, at::tensor({1.0, 0.05, 0.0025, 0.000125}, at::kFloat));
  expect_speeds(options, 17, at::tensor({0.5, 0.025, 0.002, 0.0001}, at::kFloat));
  const Rope rope(options, 8);
  EXPECT_FALSE(rope.changes_between(3, 16));
  EXPECT_TRUE(rope.changes_between(16, 17));
  EXPECT_FALSE(rope.changes_between(17, 90));
  // sqrt(1 + ln 4 / ln 16)
  EXPECT_NEAR(rope.turns(0, 1, 1, at::kCPU).cosines[0][0].item<double>(), std::sqrt(1.5), 1e-6);
}

TEST(RopeTest, RotatesTheFirstPartOfAHead) {
  RopeOptions options;
  options.partial_rotary_factor = 0.5;
  const Rope rope(options, 8), whole(RopeOptions(), 4);
  const at::Tensor x = at::randn({1, 2, 3, 8});
  const at::Tensor y = Rope::turn(x, rope.turns(0, 3, 3, at::kCPU));
  EXPECT_TRUE(y.narrow(-1, 4, 4).equal(x.narrow(-1, 4, 4)));
  const at::Tensor part = Rope::turn(x.narrow(-1, 0, 4), whole.turns(0, 3, 3, at::kCPU));
  EXPECT_TRUE(y.narrow(-1, 0, 4).equal(part));
  EXPECT_TRUE(Rope::turn(x, RopeTurns()).equal(x));
}

}  // namespace
}  // namespace accel::rope_test
