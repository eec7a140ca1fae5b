// Rollouts of prompts: rows, masks, random streams and rewards.
#include "train/tasks/rollouts.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "train/tasks/completion_rows.h"

namespace accel::rollouts_test {
namespace {

constexpr int64_t kNone = kIgnoredTarget;

/// Completes a prompt by its last token, as often as its group's position says; odd ones end.
class FakeSampler final : public CompletionSampler {
 public:
  std::vector<SampledCompletion> sample(std::span<const SampledPrompt> prompts,
                                        const CompletionOptions& options) override {
    used = options;
    std::vector<SampledCompletion> out;
    for (const SampledPrompt& prompt : prompts) {
      streams.push_back(prompt.stream);
      const size_t i = out.size() % 2;
      std::vector<int64_t> tokens(i + 1, prompt.tokens.back());
      if (i == 1) tokens.back() = 9;
      out.push_back({tokens, i == 1 ? "ended" : "cut", i == 1});
    }
    return out;
  }
  std::string text_of(std::span<const int64_t>) const override { return ""; }
  int64_t max_context() const override { return 0; }
  bool is_cached() const override { return true; }
  bool has_end_token() const override { return true; }

  std::vector<uint64_t> streams;
  CompletionOptions used;
};

/// Returns the given values; records what it saw.
class FakeReward final : public RewardFunction {
 public:
  explicit FakeReward(std::vector<std::optional<double>> values) : values_(std::move(values)) {}
  std::vector<std::optional<double>> score(std::span<const ScoredCompletion> completions) override {
    for (const ScoredCompletion& item : completions) {
      seen.push_back(item.row.prompt + "|" + item.text + "|" +
                     std::to_string(item.prompt_tokens.size()) + "|" +
                     std::to_string(item.tokens.size()) + (item.is_truncated ? "|truncated" : ""));
    }
    return values_;
  }

  std::vector<std::string> seen;

 private:
  std::vector<std::optional<double>> values_;
};

Batch two_prompts() {
  Batch batch;
  batch.inputs = at::tensor(std::vector<int64_t>{1, 2, 3, 4, 0, 0}, at::kLong).view({2, 3});
  batch.lengths = at::tensor(std::vector<int64_t>{3, 1}, at::kLong);
  batch.ids = {7, 5};
  return batch;
}

struct RolloutCase {
  explicit RolloutCase(std::vector<std::optional<double>> values, bool mask_truncated = false) {
    auto reward = std::make_unique<FakeReward>(std::move(values));
    seen = reward.get();
    rewards.push_back(std::move(reward));
    options.num_generations = 2;
    options.mask_truncated = mask_truncated;
    options.sampling.temperature = 0.5;
  }
  Rollouts sample(int64_t step) {
    RolloutSampler rollouts(options, rewards, names);
    const auto row = [](int64_t id) {
      return PromptRow{.prompt = "p" + std::to_string(id), .place = "sample " + std::to_string(id)};
    };
    rollouts.set_source({sampler, row, row, 3});
    return rollouts.sample(two_prompts(), step, /*is_training=*/true);
  }

  std::shared_ptr<FakeSampler> sampler = std::make_shared<FakeSampler>();
  RewardFunctions rewards;
  FakeReward* seen;
  std::vector<std::string> names = {"fake"};
  RolloutOptions options;
};

at::Tensor longs(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong).view({4, -1});
}

TEST(RolloutsTest, RowsAreThePromptWithEachCompletionOfItsGroup) {
  RolloutCase setup({1, 0, 2, std::nullopt});
  const Rollouts out = setup.sample(1);
  EXPECT_TRUE(
      out.rows.inputs.equal(longs({1, 2, 3, 3, 0, 1, 2, 3, 3, 9, 4, 4, 0, 0, 0, 4, 4, 9, 0, 0})));
  EXPECT_TRUE(out.rows.targets.equal(
      longs({kNone, kNone, 3,     kNone, kNone, kNone, kNone, 3,     9,     kNone,
             4,     kNone, kNone, kNone, kNone, 4,     9,     kNone, kNone, kNone})));
  EXPECT_TRUE(out.mask.equal(out.rows.targets.ne(kNone).to(at::kFloat)));
  EXPECT_EQ(out.rows.ids, (std::vector<int64_t>{7, 7, 5, 5}));
  EXPECT_EQ(setup.seen->seen, (std::vector<std::string>{"p7|cut|3|1|truncated", "p7|ended|3|2",
                                                        "p5|cut|1|1|truncated", "p5|ended|1|2"}));
  EXPECT_EQ(out.rewards[2][0].item<double>(), 2);
  EXPECT_TRUE(std::isnan(out.rewards[3][0].item<double>()));
  EXPECT_EQ(out.truncated.sum().item<double>(), 2);
  EXPECT_EQ(setup.sampler->used.temperature, 0.5);
  EXPECT_EQ(setup.sampler->used.seed, 3);
}

TEST(RolloutsTest, TruncatedCompletionsCanBeMasked) {
  const Rollouts out = RolloutCase({1, 1, 1, 1}, /*mask_truncated=*/true).sample(1);
  EXPECT_TRUE(out.mask.sum(1).equal(at::tensor(std::vector<double>{0, 2, 0, 2}, at::kFloat)));
}

TEST(RolloutsTest, StreamsDependOnTheStepAndTheSample) {
  RolloutCase first({1, 1, 1, 1}), again({1, 1, 1, 1}), next({1, 1, 1, 1});
  first.sample(1);
  again.sample(1);
  next.sample(2);
  EXPECT_EQ(first.sampler->streams, again.sampler->streams);
  std::set<uint64_t> all(first.sampler->streams.begin(), first.sampler->streams.end());
  all.insert(next.sampler->streams.begin(), next.sampler->streams.end());
  EXPECT_EQ(all.size(), 8);
}

TEST(RolloutsTest, ARewardMustBeFiniteAndThereMustBeOneForEachCompletion) {
  RolloutCase wrong({1, 1, std::numeric_limits<double>::infinity(), 1});
  try {
    wrong.sample(1);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the reward 'fake' is not finite for a completion of sample 5");
    EXPECT_EQ(error.hint(), "return no reward where it does not apply");
  }
  RolloutCase few({1});
  try {
    few.sample(1);
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "the reward 'fake' returned 1 rewards for 4 completions");
  }
}

TEST(RolloutsTest, RowsOfTheLogAreJson) {
  RolloutCase setup({1, 0, 2.5, std::nullopt});
  Rollouts out = setup.sample(1);
  out.advantages = at::tensor(std::vector<double>{0.5, -0.5, 1, 0}, at::kFloat);
  const std::vector<std::string> rows = completion_rows(out, 3, setup.names);
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[1],
            R"({"step": 3, "prompt": "p7", "completion": "ended", "rewards": {"fake": 0}, )"
            R"("advantage": -0.5, "truncated": false, "prompt_ids": [1, 2, 3], )"
            R"("completion_ids": [3, 9]})");
  EXPECT_NE(rows[3].find(R"("rewards": {"fake": null})"), std::string::npos);
}

}  // namespace
}  // namespace accel::rollouts_test
