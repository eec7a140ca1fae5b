// CoNLL files as samples: columns of words and tags, prediction, and faults by line.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/targets.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::conll_dataset_test {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kNo = kIgnoredTarget;

Numbers numbers_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

class ConllDatasetTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "",
                                   bool targets = true) {
    folder_.write("tokenizer.json", kSmallTokenizer);
    folder_.write("t.txt", content);
    return build<Dataset>("{type: conll, path: " + folder_.path("t.txt") +
                              ", tokenizer: " + folder_.path("tokenizer.json") +
                              (more.empty() ? "" : ", ") + more + "}",
                          DatasetContext{.targets = targets});
  }
  std::string refusal(const std::string& content, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(content, more); });
  }

  TempFolder folder_;
};

constexpr auto kText =
    "-DOCSTART- -X- O\n\nGood JJ O\nfilms NNS B-ART\nbad JJ O\n\nfilms NNS I-PER\n";

TEST_F(ConllDatasetTest, TheLastColumnHasTheTags) {
  const auto data = dataset(kText);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->shape().labels, (std::vector<std::string>{"B-ART", "I-PER", "O"}));
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{2, 5, 7, 8, 6, 3}));
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, 2, 0, kNo, 2, kNo}));
  EXPECT_EQ(dataset(kText, "tag_column: 1")->shape().labels,
            (std::vector<std::string>{"JJ", "NNS"}));
  EXPECT_NE(dataset(kText, "tag_column: 1")->fingerprint(), data->fingerprint());
  EXPECT_EQ(dataset(kText, "word_column: 1, tag_column: 0")->shape().labels.front(), "Good");
}

TEST_F(ConllDatasetTest, PredictionNeedsNoTags) {
  const auto data = dataset("good\nfilms\n\nbad\n", "labels: [O, B-ART]", false);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, 0, 0, kNo, kNo}));
}

TEST_F(ConllDatasetTest, FaultsAreReportedWithTheirLine) {
  EXPECT_EQ(refusal("good O\nbad\n"),
            "t.txt:2: has 1 of the 2 columns of the first line: name the columns with "
            "'word_column' and 'tag_column'");
  EXPECT_EQ(refusal("good\nbad\n"), "t.txt:1: has one column, and a word and its tag are wanted");
  EXPECT_EQ(refusal("good O\n\nbad\n", "tag_column: 1"),
            "t.txt:3: has no column 1: columns are counted from 0");
  EXPECT_EQ(refusal("good O\n\nbad B-X\n", "labels: [O, B-ART]"),
            "t.txt:3: has the tag 'B-X', which is not one of the 2 labels");
  EXPECT_EQ(refusal("\n"), "'t.txt' has no lines");
}

}  // namespace
}  // namespace accel::conll_dataset_test
