#include "track/record_rewind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "track/record.h"

namespace accel::record_rewind_test {
namespace {

/// The record of a run that was saved after step 6, and went on to step 8.
class RecordRewindTest : public testing::Test {
 protected:
  RecordRewindTest() {
    RunRecord record(path_, 0);
    record.event(0, "start", "at step 0");
    for (int64_t step = 1; step <= 6; ++step) record.step({.step = step, .loss = 0.5});
    record.flush();
    mark_ = record.mark();
    record.event(6, "save", "checkpoint_6");
    for (int64_t step = 7; step <= 8; ++step) record.step({.step = step, .loss = 0.5});
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }

  void write(const std::vector<std::string>& lines) const {
    std::ofstream out(path_);
    for (const std::string& line : lines) out << line << "\n";
  }

  std::string problem(std::optional<RecordMark> mark) const {
    return rewind_record(path_, 6, mark).problem;
  }

  TempFolder folder_;
  std::string path_ = folder_.path("metrics.jsonl");
  RecordMark mark_;
};

TEST_F(RecordRewindTest, AWholeRecordIsTruncatedSilently) {
  EXPECT_EQ(mark_.bytes, file_content(path_).find("{\"step\":6,\"event\""));
  const RewoundRecord found = rewind_record(path_, 6, mark_);
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(lines().size(), 8U);
  EXPECT_EQ(found.bytes, file_content(path_).size());
  EXPECT_EQ(found.checksum.value(), checksum_of(as_bytes(file_content(path_))));
}

TEST_F(RecordRewindTest, TheMarkOfAResumedRunCoversTheLinesItKept) {
  RunRecord record(path_, 6, mark_);
  EXPECT_EQ(record.problem(), "");
  record.step({.step = 7, .loss = 0.25});
  record.flush();
  const std::string content = file_content(path_);
  EXPECT_EQ(record.mark(), (RecordMark{content.size(), checksum_of(as_bytes(content))}));
}

TEST_F(RecordRewindTest, MissingStepsAreCounted) {
  std::vector<std::string> all = lines();
  all.resize(3);  // the start and two steps
  write(all);
  EXPECT_EQ(problem(mark_), text("the record '{}' does not match the checkpoint at step 6: 4 "
                                 "missing steps; the rest is kept",
                                 path_));
  EXPECT_EQ(lines(), all);
  EXPECT_EQ(problem(std::nullopt), "") << "a checkpoint of 0.1.0";
}

TEST_F(RecordRewindTest, ADamagedLineInTheMiddleIsNamed) {
  std::vector<std::string> all = lines();
  all[3].resize(10);
  write(all);
  EXPECT_EQ(problem(std::nullopt),
            text("the record '{}' has 1 damaged line; the rest is kept", path_));
  write(all);
  EXPECT_EQ(problem(mark_), text("the record '{}' does not match the checkpoint at step 6: 1 "
                                 "damaged line, 1 missing step; the rest is kept",
                                 path_));
  EXPECT_EQ(lines().size(), 7U);
}

TEST_F(RecordRewindTest, AChangedValueIsNoticed) {
  std::string content = file_content(path_);
  content.replace(content.find("0.5"), 3, "0.6");
  folder_.write("metrics.jsonl", content);
  EXPECT_EQ(problem(mark_), text("the record '{}' does not match the checkpoint at step 6: a value "
                                 "was changed",
                                 path_));
}

TEST_F(RecordRewindTest, AMissingRecordIsNamed) {
  std::filesystem::remove(path_);
  EXPECT_EQ(problem(mark_),
            text("the record '{}' is missing: it starts again after step 6", path_));
  EXPECT_EQ(problem(std::nullopt), "") << "a run from another run's checkpoint";
}

}  // namespace
}  // namespace accel::record_rewind_test
