// Metrics of generated texts, with the numbers of the packages rouge_score and sacrebleu.
#include "train/metrics/text_metric.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/api/targets.h"
#include "tests/unit/build_component.h"

namespace accel::text_metrics_test {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;  // prediction, reference

const Texts kTexts = {
    {"The cat sat on the mat.", "the cat was on the mat"},
    {"A quick, brown fox - 3.5 miles away!", "the quick brown fox is 3,5 miles away"},
    {"", "nothing"},
    {"\xC3\x9C"
     "ber-cool: it's \"fine\" & 20-30% off",
     "\xC3\xBC"
     "ber cool, it is fine &amp; 20 - 30% off."},
    {"the the the the", "the cat"}};

std::map<std::string, double> scores(const std::string& metric, const Texts& texts) {
  const auto built = build<Metric>(metric);
  for (const auto& [prediction, reference] : texts) {
    dynamic_cast<TextMetric&>(*built).add(prediction, reference);
  }
  const auto values = built->values();
  return {values.begin(), values.end()};
}

TEST(RougeTest, ScoresAreThoseOfTheReferencePackage) {
  const auto found = scores("rouge", kTexts);
  EXPECT_NEAR(found.at("rouge1"), 0.5627450980392157, 1e-15);
  EXPECT_NEAR(found.at("rouge2"), 0.36, 1e-15);
  EXPECT_NEAR(found.at("rougeL"), 0.5627450980392157, 1e-15);
}

TEST(RougeTest, AnOrderedPartCountsForRougeLOnly) {
  const auto found = scores("rouge", {{"c b a", "a b c"}});
  EXPECT_EQ(found.at("rouge1"), 1);
  EXPECT_EQ(found.at("rouge2"), 0);
  EXPECT_NEAR(found.at("rougeL"), 1.0 / 3, 1e-15);
}

TEST(BleuTest, ScoresAreThoseOfSacrebleu) {
  const std::pair<Texts, double> cases[] = {
      {kTexts, 25.99727703465455},
      {{kTexts.front()}, 26.269098944241588},
      {{{"a b", "a b"}}, 0},
      {{{"a b c d x", "a b c e d"}}, 42.72870063962342},
      {{{"one two three four", "one two three four five six"}}, 60.653065971263366},
      {{{"", ""}}, 0}};
  for (const auto& [texts, wanted] : cases) {
    EXPECT_NEAR(scores("bleu", texts).at("bleu"), wanted, 1e-12);
  }
}

TEST(TextMetricTest, PaddingIsNoToken) {
  const auto metric = build<Metric>("rouge");
  dynamic_cast<TextMetric&>(*metric).set_decode([](std::span<const int64_t> tokens) {
    std::string text;
    for (const int64_t token : tokens) text += std::to_string(token) + " ";
    return text;
  });
  constexpr int64_t kNone = kIgnoredTarget;
  Batch batch;
  batch.targets = at::tensor(std::vector<int64_t>{1, 2, 3, kNone}, at::kLong).view({2, 2});
  batch.ids = {0, 1};
  const at::Tensor output =
      at::tensor(std::vector<int64_t>{1, kNone, kNone, 3, 4, 5}, at::kLong).view({2, 3});
  metric->update({output, batch, 0, 3});
  const auto values = metric->values();
  EXPECT_NEAR(values[0].second, (2.0 / 3 + 0.5) / 2, 1e-15);
  EXPECT_TRUE(metric->higher_is_better());
}

}  // namespace
}  // namespace accel::text_metrics_test
