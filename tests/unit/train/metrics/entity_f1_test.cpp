// Whole entities: what begins and ends one, and what counts as found.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/api/metric.h"
#include "core/api/targets.h"
#include "tests/unit/build_component.h"

namespace accel::entity_f1_test {
namespace {

const std::vector<std::string> kLabels = {"O",     "B-PER", "I-PER", "B-LOC",
                                          "I-LOC", "E-PER", "S-PER", "S-LOC"};

MetricContext labelled(std::vector<std::string> labels) {
  MetricContext context;
  context.data.classes = static_cast<int64_t>(labels.size());
  context.data.labels = std::move(labels);
  return context;
}

/// Rows of labels between spaces, "-" for a place that does not count; filled to the longest.
at::Tensor rows(const std::vector<std::string>& texts) {
  std::vector<std::vector<int64_t>> rows;
  size_t longest = 0;
  for (const std::string& text : texts) {
    std::istringstream words(text);
    std::vector<int64_t>& row = rows.emplace_back();
    for (std::string word; words >> word;) {
      const auto found = std::find(kLabels.begin(), kLabels.end(), word);
      row.push_back(found == kLabels.end() ? kIgnoredTarget : found - kLabels.begin());
    }
    longest = std::max(longest, row.size());
  }
  std::vector<int64_t> all;
  for (std::vector<int64_t>& row : rows) {
    row.resize(longest, kIgnoredTarget);
    all.insert(all.end(), row.begin(), row.end());
  }
  return at::tensor(all, at::kLong).view({static_cast<int64_t>(rows.size()), -1});
}

void feed(Metric& metric, const std::vector<std::string>& chosen,
          const std::vector<std::string>& actual) {
  Batch batch;
  batch.targets = rows(actual);
  // The model chooses something everywhere, also where nobody asks.
  const at::Tensor output = rows(chosen).clamp_min(0);
  metric.update({output, batch, 0, 0});
}

struct Case {
  const char* chosen;
  const char* actual;
  std::vector<double> counts;  ///< right, chosen, there
};

class EntityF1Test : public testing::TestWithParam<Case> {};

TEST_P(EntityF1Test, CountsWholeEntities) {
  const auto metric = build<Metric>("entity_f1", labelled(kLabels));
  feed(*metric, {GetParam().chosen}, {GetParam().actual});
  EXPECT_EQ(metric->sums(), GetParam().counts) << GetParam().chosen << " for " << GetParam().actual;
}

INSTANTIATE_TEST_SUITE_P(
    All, EntityF1Test,
    testing::Values(Case{"B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC", {2, 2, 2}},
                    Case{"B-PER O O B-LOC", "B-PER I-PER O B-LOC", {1, 2, 2}},
                    Case{"B-PER I-PER", "B-PER B-PER", {0, 1, 2}},
                    Case{"B-LOC I-LOC", "B-PER I-PER", {0, 1, 1}},
                    Case{"B-PER I-LOC", "B-PER B-LOC", {2, 2, 2}},
                    Case{"O I-PER I-PER", "O B-PER I-PER", {1, 1, 1}},
                    Case{"I-PER I-LOC O", "B-PER B-LOC O", {2, 2, 2}},
                    Case{"S-PER S-LOC", "B-PER B-LOC", {2, 2, 2}},
                    Case{"S-PER I-PER", "B-PER B-PER", {2, 2, 2}},
                    Case{"B-PER E-PER I-PER", "B-PER I-PER B-PER", {2, 2, 2}},
                    Case{"O O O", "B-PER O O", {0, 0, 1}}, Case{"O O", "O O", {0, 0, 0}},
                    Case{"O B-PER I-PER B-PER", "- B-PER - I-PER", {0, 2, 1}},
                    Case{"O B-PER I-LOC I-PER I-LOC", "- B-PER - I-PER -", {1, 1, 1}}));

TEST(EntityF1MetricTest, SumsOverRowsAndBatches) {
  const auto metric = build<Metric>("entity_f1", labelled(kLabels));
  feed(*metric, {"B-PER I-PER", "I-PER"}, {"B-PER I-PER", "B-PER"});
  EXPECT_EQ(metric->sums(), (std::vector<double>{2, 2, 2})) << "none continues in the next row";
  feed(*metric, {"B-LOC B-LOC"}, {"B-PER I-PER"});
  const auto values = metric->values();
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].first, "entity_f1");
  EXPECT_NEAR(values[0].second, 2 * 2.0 / (4 + 3), 1e-12);
  EXPECT_EQ(values[1].first, "entity_precision");
  EXPECT_NEAR(values[1].second, 0.5, 1e-12);
  EXPECT_EQ(values[2].first, "entity_recall");
  EXPECT_NEAR(values[2].second, 2.0 / 3, 1e-12);
  EXPECT_TRUE(metric->higher_is_better());
}

TEST(EntityF1MetricTest, EntitiesEndWithTheirTextInAPackedRow) {
  const auto metric = build<Metric>("entity_f1", labelled(kLabels));
  Batch batch;
  batch.targets = rows({"- B-PER - B-PER I-PER"});
  batch.segments = at::tensor({1, 1, 2, 2, 2}, at::kLong).unsqueeze(0);
  metric->update({rows({"O B-PER O I-PER I-PER"}).clamp_min(0), batch, 0, 0});
  EXPECT_EQ(metric->sums(), (std::vector<double>{2, 2, 2}));
}

TEST(EntityF1MetricTest, NothingFoundIsZero) {
  const auto metric = build<Metric>("entity_f1", labelled(kLabels));
  feed(*metric, {"O"}, {"O"});
  for (const auto& [name, value] : metric->values()) EXPECT_EQ(value, 0) << name;
}

TEST(EntityF1MetricTest, WantsLabelsThatTellWhereEntitiesBegin) {
  EXPECT_EQ(complaint<Metric>("entity_f1", labelled({"O", "PER"})),
            "the metric 'entity_f1' needs labels such as 'O', 'B-PER' and 'I-PER', but the data "
            "has 'PER'");
  EXPECT_EQ(complaint<Metric>("entity_f1", labelled({"O", "X-PER"})),
            "the metric 'entity_f1' needs labels such as 'O', 'B-PER' and 'I-PER', but the data "
            "has 'X-PER'");
  EXPECT_EQ(complaint<Metric>("entity_f1", labelled({})),
            "the metric 'entity_f1' needs labels such as 'O', 'B-PER' and 'I-PER', but the data "
            "has no label names");
}

}  // namespace
}  // namespace accel::entity_f1_test
