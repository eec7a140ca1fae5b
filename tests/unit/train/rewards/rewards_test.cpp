// Rewards of completions by each reward function.
#include <gtest/gtest.h>

#include "core/api/reward.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"

namespace accel::rewards_test {
namespace {

PromptRow row(const std::string& answer) {
  return {.prompt = "2+3=", .columns = {{"answer", answer}}, .place = "sample 0 of sums.jsonl"};
}

std::vector<double> rewards(const std::string& yaml, const std::vector<std::string>& texts,
                            const PromptRow& asked = row("5"),
                            const std::vector<int64_t>& tokens = {}) {
  const auto reward = build<RewardFunction>(yaml);
  std::vector<ScoredCompletion> items;
  for (const std::string& text : texts) items.push_back({asked, text, {}, tokens, false});
  std::vector<double> out;
  for (const auto& value : reward->score(items)) out.push_back(value.value());
  return out;
}

using Numbers = std::vector<double>;

TEST(RewardsTest, ExactMatchComparesTheCompletionWithTheAnswer) {
  EXPECT_EQ(rewards("exact_match", {"5", " 5\n", "5.", "15", ""}), (Numbers{1, 1, 0, 0, 0}));
  EXPECT_EQ(rewards("{type: exact_match, reward: 2}", {"Five"}, row("five")), (Numbers{0}));
  EXPECT_EQ(rewards("{type: exact_match, reward: 2, ignore_case: true}", {"Five"}, row("five")),
            (Numbers{2}));
}

TEST(RewardsTest, ExactMatchExtractsTheLastMatch) {
  EXPECT_EQ(rewards("{type: exact_match, extract: '-?[0-9]+'}",
                    {"2 and 3 are 5.", "5 is not 6", "none", "-5"}),
            (Numbers{1, 0, 0, 0}));
}

TEST(RewardsTest, ExactMatchNeedsItsColumn) {
  const auto reward = build<RewardFunction>("{type: exact_match, column: result}");
  EXPECT_EQ(reward->columns(), std::vector<std::string>{"result"});
  try {
    rewards("{type: exact_match, column: result}", {"5"});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(),
                 "sample 0 of sums.jsonl has no column 'result', which the reward 'exact_match' "
                 "reads");
    EXPECT_EQ(error.hint(), "give each row the column, or name another with 'column'");
  }
}

TEST(RewardsTest, FormatMatchesTheWholeCompletionOrAPart) {
  const std::vector<std::string> texts = {"<a>5</a>", " <a>\n5</a>\n", "x <a>5</a>", "5",
                                          "<a>1</a><a>5</a>"};
  EXPECT_EQ(rewards("{type: format, pattern: '<a>[^<]*</a>'}", texts), (Numbers{1, 1, 0, 0, 0}));
  EXPECT_EQ(rewards("{type: format, pattern: '<a>[^<]*</a>', whole: false, reward: 0.5}", texts),
            (Numbers{0.5, 0.5, 0.5, 0, 0.5}));
}

TEST(RewardsTest, FormatRefusesWhatIsNoRegularExpression) {
  EXPECT_EQ(complaint<RewardFunction>("{type: format, pattern: '(a'}"),
            "recipe.yaml:1:25: error: 'pattern' must be a regular expression without groups that "
            "do more than match, not '(a'\n"
            "    {type: format, pattern: '(a'}\n"
            "                            ^\n");
}

TEST(RewardsTest, LengthFallsOverTheBuffer) {
  const auto of = [](const std::string& yaml, size_t tokens) {
    return rewards(yaml, {""}, row("5"), std::vector<int64_t>(tokens, 1))[0];
  };
  constexpr auto kSoft = "{type: length, max_tokens: 100, buffer: 20}";
  EXPECT_EQ(of(kSoft, 80), 0);
  EXPECT_EQ(of(kSoft, 90), -0.5);
  EXPECT_EQ(of(kSoft, 100), -1);
  EXPECT_EQ(of(kSoft, 101), -1);
  EXPECT_EQ(of("{type: length, max_tokens: 3}", 3), 0);
  EXPECT_EQ(of("{type: length, max_tokens: 3}", 4), -1);
  EXPECT_EQ(complaint<RewardFunction>("{type: length, max_tokens: 3, buffer: 3}"),
            "recipe.yaml:1:39: error: 'buffer' must be less than 'max_tokens'\n"
            "    {type: length, max_tokens: 3, buffer: 3}\n"
            "                                          ^\n"
            "  hint: lower it\n");
}

}  // namespace
}  // namespace accel::rewards_test
