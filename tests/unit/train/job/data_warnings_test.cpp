// Warnings about data with which training or evaluation is misleading.
#include "train/job/data_warnings.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/unit/data/number_dataset.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::data_warnings_test {
namespace {

using Lines = std::vector<std::string>;

/// A job of datasets alone.
Lines warnings(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> eval) {
  using Transforms = std::vector<std::unique_ptr<Transform>>;
  Job job;
  job.train_loader = std::make_unique<Loader>(std::move(train), Transforms(), LoaderOptions{});
  if (eval) {
    job.eval_loader = std::make_unique<Loader>(std::move(eval), Transforms(), LoaderOptions{});
  }
  return data_warnings(job);
}

std::shared_ptr<const Dataset> numbers(int64_t size, int64_t first = 0) {
  return std::make_shared<NumberDataset>(size, first);
}

TEST(DataWarningsTest, EvalSamplesThatAreTrainingSamplesAreReported) {
  EXPECT_EQ(warnings(numbers(100), numbers(40, 100)), Lines());
  EXPECT_EQ(
      warnings(numbers(100), numbers(40, 90)),
      Lines{"10 of 40 eval samples are in the training data too: results are better than they "
            "would be on new data"});
  EXPECT_EQ(warnings(numbers(1000), numbers(400, 999)), Lines());  // one is no leak
}

/// Samples of a few values: sample `i` is the number i % `values`.
std::shared_ptr<const Dataset> repeated(int64_t size, int64_t values) {
  return std::make_shared<ChangedDataset>(size, [values](int64_t index, Sample) {
    return NumberDataset(values, 0).sample(index % values);
  });
}

TEST(DataWarningsTest, RowsOfAFewValuesRepeatWithoutALeak) {
  EXPECT_EQ(warnings(repeated(100, 8), repeated(40, 8)), Lines());
  // Half of the training samples are single; all of the eval samples are among them.
  const auto half = std::make_shared<ChangedDataset>(200, [](int64_t index, Sample) {
    return NumberDataset(200, 0).sample(index < 100 ? index : 100);
  });
  EXPECT_EQ(warnings(half, numbers(60)).size(), 1u);
}

TEST(DataWarningsTest, EvalDataThatIsTheTrainingDataIsReportedWithRepeatedRowsToo) {
  const TempFolder folder;
  std::string table = "a,y\n";
  for (int i = 0; i < 60; ++i) table += i % 2 ? "1,no\n" : "2,yes\n";
  const std::string train = "{type: csv, path: " + folder.write("t.csv", table) + ", target: y}";
  const auto found = [&](const std::string& eval) {
    return data_warnings(*make_job("model: {type: mlp, hidden_sizes: [4]}\ndata:\n  train: " +
                                   train + "\n  " + eval + "\ntrain: {until: 1 step, batch: 2}\n"));
  };
  EXPECT_EQ(
      found("eval: " + train),
      Lines{"60 of 60 eval samples are in the training data too: results are better than they "
            "would be on new data"});
  EXPECT_EQ(found("split: {eval: 20%}"), Lines());
}

TEST(DataWarningsTest, LargeDataIsSampled) {
  const Lines found = warnings(numbers(21'000), numbers(3'000));
  ASSERT_EQ(found.size(), 1u);
  const std::regex wanted(
      "[0-9]+ of ([0-9]+) eval samples are in the training data too: results are better than they "
      "would be on new data; compared: ([0-9]+) of 3000 eval samples with [0-9]+ of 21000 training "
      "samples");
  std::smatch parts;
  ASSERT_TRUE(std::regex_match(found[0], parts, wanted)) << found[0];
  EXPECT_EQ(parts[1], parts[2]);
}

TEST(DataWarningsTest, AnUnreadableSampleIsNoErrorYet) {
  const auto torn = std::make_shared<ChangedDataset>(
      9, [](int64_t, Sample) -> Sample { throw DataError("unreadable"); });
  EXPECT_EQ(warnings(numbers(9), torn), Lines());
}

TEST(DataWarningsTest, TrainingDataOfOneClassIsReported) {
  const TempFolder folder;
  const std::string path = folder.write("t.csv", "a,y\n1,no\n2,no\n3,no\n4,yes\n");
  const auto recipe = [&](const std::string& rest) {
    return "model: {type: mlp, hidden_sizes: [4]}\ndata:\n  train: {type: csv, path: " + path +
           ", target: y" + rest + "}\ntrain: {until: 1 step, batch: 2}\n";
  };
  EXPECT_EQ(data_warnings(*make_job(recipe(""))), Lines());
  EXPECT_EQ(data_warnings(*make_job(recipe(", head: 3"))),
            Lines{"all 3 training samples are of the class 'no': a model cannot learn from them to "
                  "tell classes apart"});
}

}  // namespace
}  // namespace accel::data_warnings_test
