#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/run_in.h"
#include "track/values.h"

namespace accel::csv_test {
namespace {

using Values = std::vector<Measurement>;

class CsvTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t first_step = 0) {
    return build<Tracker>("csv", run_in(folder_.path(), first_step));
  }
  std::string table() const { return folder_.path("metrics.csv"); }

  TempFolder folder_;
};

TEST_F(CsvTrackerTest, RowPerStepAndColumnPerName) {
  const auto csv = tracker();
  csv->log(10, Values{{"train/loss", 0.5}, {"train/lr", 0.001}});
  csv->log(20, Values{{"train/loss", 0.25}, {"train/lr", 0.0005}});
  csv->flush(Flush::kDurable);
  EXPECT_EQ(file_content(table()), "step,train/loss,train/lr\n10,0.5,0.001\n20,0.25,5e-04\n");
}

TEST_F(CsvTrackerTest, ValuesOfOneStepShareARow) {
  const auto csv = tracker();
  csv->log(10, Values{{"train/loss", 0.5}});
  csv->log(10, Values{{"eval/loss", 0.75}});
  csv->finish(RunStatus::kFinished);
  EXPECT_EQ(file_content(table()), "step,train/loss,eval/loss\n10,0.5,0.75\n");
}

TEST_F(CsvTrackerTest, ARowIsWrittenWhenItsStepIsOver) {
  const auto csv = tracker();
  csv->log(10, Values{{"train/loss", 0.5}});
  csv->flush(Flush::kReadable);
  EXPECT_EQ(file_content(table()), "");
  csv->log(20, Values{{"train/loss", 0.25}});
  csv->flush(Flush::kReadable);
  EXPECT_EQ(file_content(table()), "step,train/loss\n10,0.5\n");
}

TEST_F(CsvTrackerTest, NewColumnsWidenTheRowsBefore) {
  const auto csv = tracker();
  csv->log(10, Values{{"loss", 0.5}});
  csv->flush(Flush::kDurable);
  csv->log(20, Values{{"loss", 0.25}});
  csv->log(20, Values{{"eval, top 5", 1}, {"speed", 8}});
  csv->log(30, Values{{"speed", 9}});
  csv->flush(Flush::kDurable);
  EXPECT_EQ(file_content(table()),
            "step,loss,\"eval, top 5\",speed\n10,0.5,,\n20,0.25,1,8\n30,,,9\n");
}

TEST_F(CsvTrackerTest, NumbersThatAreNotFiniteReadAsDataFramesWriteThem) {
  const auto csv = tracker();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  csv->log(1, Values{{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", -kInfinity}});
  csv->flush(Flush::kDurable);
  EXPECT_EQ(file_content(table()), "step,a,b\n1,nan,-inf\n");
}

TEST_F(CsvTrackerTest, ResumeDropsLaterRowsAndKeepsTheColumns) {
  folder_.write("metrics.csv", "step,\"a,b\",loss\n10,1,2\n20,3,4\n30,5,6\n40,7");
  const auto csv = tracker(20);
  csv->log(30, Values{{"loss", 60}});
  csv->log(40, Values{{"new", 80}});
  csv->flush(Flush::kDurable);
  EXPECT_EQ(file_content(table()), "step,\"a,b\",loss,new\n10,1,2,\n20,3,4,\n30,,60,\n40,,,80\n");
}

TEST_F(CsvTrackerTest, FreshRunReplacesAnOlderTable) {
  folder_.write("metrics.csv", "step,loss\n0,9\n10,1\n");
  const auto csv = tracker();
  csv->log(10, Values{{"loss", 2}});
  csv->flush(Flush::kDurable);
  EXPECT_EQ(file_content(table()), "step,loss\n10,2\n");
}

TEST_F(CsvTrackerTest, ForeignTableIsRefused) {
  folder_.write("metrics.csv", "sentence,label\nfine,1\n");
  try {
    tracker();
    FAIL() << "the table was taken";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), "'" + table() +
                                "' exists and is not a metrics table: its first column is "
                                "'sentence', 'step' wanted");
    EXPECT_EQ(error.hint(), "set another 'path' for the csv tracker");
  }
  EXPECT_EQ(file_content(table()), "sentence,label\nfine,1\n");
}

TEST_F(CsvTrackerTest, WhatIsNoFileIsRefusedAndAnEmptyFirstLineToo) {
  const auto complaint = [this] {
    try {
      tracker();
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  ASSERT_EQ(::mkfifo(table().c_str(), 0600), 0);  // would be read from for ever
  EXPECT_EQ(complaint(), "'" + table() + "' exists and is not a regular file");
  std::filesystem::remove(table());
  folder_.write("metrics.csv", "\nnotes\n");
  EXPECT_EQ(complaint(), "'" + table() +
                             "' exists and is not a metrics table: its first column is '', 'step' "
                             "wanted");
  EXPECT_EQ(file_content(table()), "\nnotes\n");
}

TEST_F(CsvTrackerTest, AnotherRunsTableIsPutAside) {
  const std::string path = folder_.write("shared.csv", "step,loss\n1,2\n");
  const std::string recipe = "type: csv\npath: " + path;
  build<Tracker>(recipe, run_in(folder_.path()))->finish(RunStatus::kFinished);
  EXPECT_EQ(file_content(path + ".1"), "step,loss\n1,2\n");
  folder_.write("shared.csv", "step,loss\n3,4\n");
  build<Tracker>(recipe, run_in(folder_.path()))->finish(RunStatus::kFinished);
  EXPECT_EQ(file_content(path + ".2"), "step,loss\n3,4\n");
  EXPECT_EQ(file_content(path + ".1"), "step,loss\n1,2\n");
}

TEST_F(CsvTrackerTest, PathOptionMovesTheTable) {
  const std::string path = folder_.path("deep/er/table.csv");
  const auto csv = build<Tracker>("type: csv\npath: " + path, run_in(folder_.path()));
  csv->log(1, Values{{"loss", 2}});
  csv->flush(Flush::kDurable);
  EXPECT_EQ(file_content(path), "step,loss\n1,2\n");
  EXPECT_FALSE(std::filesystem::exists(table()));
}

TEST(CsvTextTest, OnlyFieldsThatNeedQuotesGetThem) {
  EXPECT_EQ(csv_line({"plain", "", "a,b", "say \"hi\"", "two\nlines"}),
            "plain,,\"a,b\",\"say \"\"hi\"\"\",\"two lines\"\n");
}

}  // namespace
}  // namespace accel::csv_test
