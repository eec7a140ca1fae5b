// Held-out samples and spread samples: drawn by the seed, by class, by group, and of windows.
#include "data/loader/row_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/api/row_values.h"
#include "core/base/error.h"
#include "data/loader/selected_samples.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::row_choice_test {
namespace {

using Rows = std::vector<int64_t>;

/// Without classes.
class PlainDataset : public NumberDataset {
 public:
  using NumberDataset::NumberDataset;
  DataShape shape() const override { return {.input = {2}, .target_type = DType::kF32}; }
};

/// Three of four samples are of class 0, and each ten samples one group.
class ClassDataset final : public NumberDataset, public ClassLabels, public RowKeys {
 public:
  using NumberDataset::NumberDataset;
  Sample sample(int64_t) const override { throw DataError("no sample needs to be read"); }
  int64_t class_of(int64_t index) const override { return index % 4 == 0 ? 1 : 0; }
  std::vector<uint64_t> row_keys(const std::string& column) const override {
    std::vector<uint64_t> keys;
    for (int64_t i = 0; i < size(); ++i) {
      keys.push_back(column == "same" ? 7 : static_cast<uint64_t>(i / 10));
    }
    return keys;
  }
};

class WindowDataset final : public PlainDataset, public SequenceWindows {
 public:
  using PlainDataset::PlainDataset;
  int64_t overlap() const override { return 3; }
};

RowSplit split(const Dataset& data, const RowSplitOptions& options) {
  return split_rows(data, all_rows(data), options);
}

std::string complaint(const Dataset& data, RowSplitOptions options) {
  options.dataset = "numbers";
  try {
    split(data, options);
  } catch (const Error& error) {
    return error.what() + std::string(" | ") + error.hint();
  }
  return "";
}

std::map<int64_t, int64_t> count_classes_of(const Dataset& data, const Rows& rows) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t label : classes_of(data, rows)) ++counts[label];
  return counts;
}

TEST(RowChoiceTest, BothSidesTogetherAreAllRowsOnce) {
  const PlainDataset data(103);
  const RowSplit out = split(data, {.share = 0.1, .seed = 3});
  EXPECT_EQ(out.eval.size(), 10u);
  Rows all = out.train;
  all.insert(all.end(), out.eval.begin(), out.eval.end());
  EXPECT_TRUE(std::is_sorted(out.train.begin(), out.train.end()));
  EXPECT_TRUE(std::is_sorted(out.eval.begin(), out.eval.end()));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, all_rows(data));
  EXPECT_EQ(out.method, "seed 3");
}

TEST(RowChoiceTest, TheSeedAloneDecides) {
  const PlainDataset data(1000);
  const Rows first = split(data, {.samples = 20, .seed = 0}).eval;
  EXPECT_EQ(first, (Rows{70,  101, 244, 269, 313, 327, 342, 394, 420, 471,
                         591, 630, 657, 667, 673, 695, 762, 768, 779, 991}));
  EXPECT_EQ(split(data, {.samples = 20, .seed = 0}).eval, first);
  EXPECT_NE(split(data, {.samples = 20, .seed = 1}).eval, first);
}

TEST(RowChoiceTest, AClassIsHeldOutByItsShare) {
  const ClassDataset data(400);
  const RowSplit out = split(data, {.share = 0.1});
  EXPECT_EQ(out.method, "stratified by class, seed 0");
  EXPECT_EQ(count_classes_of(data, out.eval), (std::map<int64_t, int64_t>{{0, 30}, {1, 10}}));
  EXPECT_EQ(split(data, {.share = 0.1, .stratify = false}).method, "seed 0");
}

TEST(RowChoiceTest, AClassOfOneSampleIsTrainedOn) {
  const ClassDataset data(4);  // one sample of class 1
  const RowSplit out = split(data, {.samples = 2});
  EXPECT_EQ(count_classes_of(data, out.train)[1], 1);
  EXPECT_EQ(complaint(NumberDataset(3), {.samples = 1}),
            "no class has two samples: nothing can be held out | write 'stratify: false', or train "
            "on more data");
}

TEST(RowChoiceTest, LabelsAreReadFromSamplesIfTheDatasetDoesNotKnowThem) {
  EXPECT_EQ(classes_of(NumberDataset(9), {2, 5, 7}), (Rows{2, 5, 7}));
  EXPECT_TRUE(classes_of(PlainDataset(9), {2, 5, 7}).empty());
}

TEST(RowChoiceTest, AGroupStaysOnOneSide) {
  const ClassDataset data(100);
  const RowSplit out = split(data, {.share = 0.25, .group = "user"});
  EXPECT_EQ(out.eval.size(), 20u);  // two whole groups
  for (const int64_t row : out.eval) {
    EXPECT_TRUE(std::binary_search(out.eval.begin(), out.eval.end(), row / 10 * 10)) << row;
  }
  EXPECT_EQ(out.method, "whole groups of 'user', seed 0");
  // A group larger than the share.
  EXPECT_EQ(split(data, {.share = 0.01, .group = "user"}).eval.size(), 10u);
}

TEST(RowChoiceTest, OfWindowsTheLastAreHeldOutAndNoneOverlaps) {
  const WindowDataset data(100);
  const RowSplit out = split(data, {.share = 0.1});
  EXPECT_EQ(out.eval.front(), 90);
  EXPECT_EQ(out.eval.size(), 10u);
  EXPECT_EQ(out.train.back(), 86);  // windows 87 to 89 share tokens with window 90
  EXPECT_EQ(out.train.size(), 87u);
  EXPECT_EQ(out.unused, 3);
  EXPECT_EQ(out.method, "the last windows");
  EXPECT_EQ(complaint(WindowDataset(4), {.samples = 2}),
            "all 2 windows before the held-out ones overlap them: none is left to train on | lower "
            "'eval' of 'split', or select parts of the file with 'from' and 'to'");
}

TEST(RowChoiceTest, OptionsThatADatasetCannotFollowAreRefused) {
  EXPECT_EQ(complaint(PlainDataset(9), {.share = 0.2, .stratify = true}),
            "'stratify' is true, but the dataset 'numbers' has no class labels | leave 'stratify' "
            "out: auto stratifies where there are classes");
  EXPECT_EQ(complaint(ClassDataset(40), {.share = 0.2, .stratify = true, .group = "user"}),
            "'stratify' and 'group' exclude each other | leave 'stratify' out: groups stay "
            "together, whatever their classes");
  EXPECT_EQ(
      complaint(PlainDataset(9), {.share = 0.2, .group = "user"}),
      "'group' names a column, but the dataset 'numbers' has no columns | tables, JSON Lines, "
      "Parquet and Arrow files have them; leave 'group' out");
  EXPECT_EQ(complaint(WindowDataset(9), {.share = 0.2, .group = "user"}),
            "'group' names a column, but samples of the dataset 'numbers' are windows of one text "
            "| leave 'group' out: the last windows are held out");
  EXPECT_EQ(complaint(ClassDataset(40), {.share = 0.2, .group = "same"}),
            "all samples have one value in the column 'same' of 'group' | name a column with "
            "several values, or leave 'group' out");
  EXPECT_EQ(complaint(PlainDataset(9), {.samples = 9}),
            "'split' holds out 9 of 9 samples, which leaves none to train on | lower 'eval' of "
            "'split'");
}

TEST(RowChoiceTest, ASpreadSampleHasTheSharesOfTheClasses) {
  const ClassDataset data(400);
  const Rows rows = spread_rows(data, all_rows(data), 40, 5);
  ASSERT_EQ(rows.size(), 40u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(count_classes_of(data, rows), (std::map<int64_t, int64_t>{{0, 30}, {1, 10}}));
  EXPECT_GT(rows.back(), 300);
  EXPECT_EQ(spread_rows(data, all_rows(data), 40, 5), rows);
  EXPECT_NE(spread_rows(data, all_rows(data), 40, 6), rows);
  EXPECT_EQ(spread_rows(data, all_rows(data), 500, 5), all_rows(data));
}

TEST(RowChoiceTest, SharesOfATotalAddUp) {
  EXPECT_EQ(proportional(10, {50, 30, 20}), (Rows{5, 3, 2}));
  EXPECT_EQ(proportional(2, {1, 1, 1}), (Rows{1, 1, 0}));
  EXPECT_EQ(proportional(3, {1, 1, 1}), (Rows{1, 1, 1}));
}

}  // namespace
}  // namespace accel::row_choice_test
