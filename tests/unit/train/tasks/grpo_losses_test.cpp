// Losses and advantages of GRPO; the numbers are those of float64 tensors in PyTorch.
#include "train/tasks/grpo_losses.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

namespace accel::grpo_losses_test {
namespace {

at::Tensor rows_of(const std::vector<double>& values, int64_t rows) {
  return at::tensor(values, at::kFloat).view({rows, -1});
}

/// Three completions of 3, 2 and 4 tokens.
GrpoTokens three_rows(bool has_reference) {
  GrpoTokens tokens;
  tokens.log_probs = rows_of({-0.5, -1, -2, 0, -0.3, -0.9, 0, 0, -1.5, -0.2, -0.7, -1.1}, 3);
  tokens.log_probs.requires_grad_(true);
  tokens.old_log_probs = rows_of({-0.9, -1, -1.4, 0, -0.3, -1.3, 0, 0, -1.2, -0.4, -0.7, -0.6}, 3);
  if (has_reference) {
    tokens.reference = rows_of({-0.6, -1.2, -1.5, 0, -0.4, -0.8, 0, 0, -1, -0.3, -0.9, -1}, 3);
  }
  tokens.mask = rows_of({1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1}, 3);
  tokens.advantages = at::tensor(std::vector<double>{0.8, -1.3, 0.5}, at::kFloat);
  return tokens;
}

struct Expected {
  RatioLevel level;
  GrpoLoss type;
  double loss;
  double gradient;  ///< sum of absolute values
};

TEST(GrpoLossesTest, EachLossTypeAndRatioLevelIsThatOfPyTorch) {
  const std::vector<Expected> all = {
      {RatioLevel::kToken, GrpoLoss::kGrpo, 0.1389912553669985, 0.8272943971194583},
      {RatioLevel::kToken, GrpoLoss::kBnpo, -0.09041447011630886, 0.6971255937586508},
      {RatioLevel::kToken, GrpoLoss::kDrGrpo, -0.03390542629361582, 0.26142209765949403},
      {RatioLevel::kToken, GrpoLoss::kDapo, -0.04068651155233899, 0.31370651719139286},
      {RatioLevel::kSequence, GrpoLoss::kGrpo, 0.1376616495710369, 0.9238866570229123},
      {RatioLevel::kSequence, GrpoLoss::kBnpo, -0.08643775515505332, 0.795565826637755},
      {RatioLevel::kSequence, GrpoLoss::kDrGrpo, -0.032414158183145, 0.29833718498915807},
      {RatioLevel::kSequence, GrpoLoss::kDapo, -0.038896989819774, 0.3580046219869898}};
  for (const Expected& expected : all) {
    const GrpoTokens tokens = three_rows(/*has_reference=*/true);
    GrpoLossOptions options;
    options.loss_type = expected.type;
    options.importance_sampling_level = expected.level;
    options.beta = 0.04;
    options.epsilon_high = 0.3;
    options.max_completion_length = 8;
    const GrpoTokenLosses losses = grpo_token_losses(tokens, options);
    const at::Tensor loss = grpo_batch_loss(losses.losses, tokens.mask, options, 20);
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), expected.loss, 1e-7);
    EXPECT_NEAR(tokens.log_probs.grad().abs().sum().item<double>(), expected.gradient, 1e-6);
  }
}

TEST(GrpoLossesTest, DeltaBoundsTheRatioOfGoodAndBadCompletions) {
  const GrpoTokens tokens = three_rows(/*has_reference=*/false);
  GrpoLossOptions options;
  options.loss_type = GrpoLoss::kBnpo;
  options.epsilon_high = 0.3;
  options.delta = 1.35;
  const GrpoTokenLosses losses = grpo_token_losses(tokens, options);
  EXPECT_NEAR(grpo_batch_loss(losses.losses, tokens.mask, options, 1).item<double>(),
              -0.11204723646138685, 1e-7);
  EXPECT_FALSE(losses.kl.defined());
}

TEST(GrpoLossesTest, TheDivergenceIsTheK3EstimateAndClippedTokensAreMarked) {
  const GrpoTokens tokens = three_rows(/*has_reference=*/true);
  GrpoLossOptions options;
  options.loss_type = GrpoLoss::kBnpo;
  options.beta = 0.04;
  options.use_bias_correction_kl = false;
  const GrpoTokenLosses losses = grpo_token_losses(tokens, options);
  EXPECT_NEAR(grpo_batch_loss(losses.losses, tokens.mask, options, 1).item<double>(),
              -0.0798845907362366, 1e-7);
  const at::Tensor kl = losses.kl.mul(tokens.mask).sum().div(tokens.mask.sum());
  EXPECT_NEAR(kl.item<double>(), 0.03997312642393269, 1e-7);
  EXPECT_EQ(losses.low.sum().item<double>(), 0);
  EXPECT_TRUE(losses.high.equal(rows_of({1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, 3)));
}

TEST(GrpoLossesTest, ACompletionOfMaskedTokensHasNoLoss) {
  GrpoTokens tokens = three_rows(/*has_reference=*/false);
  tokens.mask = tokens.mask.mul(0);
  for (const GrpoLoss type : {GrpoLoss::kGrpo, GrpoLoss::kBnpo, GrpoLoss::kDrGrpo}) {
    GrpoLossOptions options;
    options.loss_type = type;
    const GrpoTokenLosses losses = grpo_token_losses(tokens, options);
    EXPECT_EQ(grpo_batch_loss(losses.losses, tokens.mask, options, 1).item<double>(), 0);
  }
}

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  const auto* const first = flat.const_data_ptr<double>();
  return {first, first + flat.numel()};
}

void expect_near(const at::Tensor& tensor, const std::vector<double>& expected) {
  const std::vector<double> found = numbers(tensor);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << i;
}

TEST(GrpoLossesTest, AdvantagesAreDistancesFromTheMeanOfTheGroup) {
  const at::Tensor rewards = at::tensor(std::vector<double>{1, 0, 0, 2, 3, 3, 3, 3}, at::kDouble);
  const double std = nan_std(rewards).item<double>();
  expect_near(
      group_advantages(rewards, 4, RewardScale::kGroup, std),
      {0.26108921405452, -0.78326764216356, -0.78326764216356, 1.3054460702726, 0, 0, 0, 0});
  expect_near(group_advantages(rewards, 4, RewardScale::kBatch, std),
              {0.1843246373715468, -0.5529739121146404, -0.5529739121146404, 0.921623186857734, 0,
               0, 0, 0});
  expect_near(group_advantages(rewards, 4, RewardScale::kNone, std),
              {0.25, -0.75, -0.75, 1.25, 0, 0, 0, 0});
}

TEST(GrpoLossesTest, ARewardThatDoesNotApplyIsLeftOut) {
  const at::Tensor rewards =
      at::tensor(std::vector<double>{1, 2, NAN, 4, NAN, NAN, 0.5, NAN}, at::kDouble).view({4, 2});
  const at::Tensor sums = weighted_rewards(rewards, {2, 0.5});
  const std::vector<double> found = numbers(sums);
  EXPECT_EQ(found[0], 3);
  EXPECT_EQ(found[1], 2);
  EXPECT_TRUE(std::isnan(found[2]));
  EXPECT_EQ(found[3], 1);
  EXPECT_NEAR(nan_std(sums).item<double>(), 1, 1e-12);
  expect_near(group_advantages(sums, 4, RewardScale::kNone, 1), {1, 0, 0, -1});
}

}  // namespace
}  // namespace accel::grpo_losses_test
