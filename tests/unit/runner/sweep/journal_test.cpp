#include "runner/sweep/journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/runner/sweep/sweep_text.h"

namespace accel::journal_test {
namespace {

constexpr auto kSweep = "recipe: a.yaml\ngrid: {seed: [1, 2]}\n";

const StageResult kDone = {
    .trial = 1, .stage = 0, .failed = false, .code = 0, .step = 12, .values = {{"eval/loss", 0.1}}};
const StageResult kFailed = {.trial = 0, .stage = 0, .failed = true, .code = 9, .step = 3};

class SweepJournalTest : public testing::Test {
 protected:
  std::vector<StageResult> open(const std::string& text,
                                const std::vector<StageResult>& more = {}) {
    const SweepOptions sweep = sweep_of(text);
    SweepJournal journal(path_, sweep, trials_of(sweep));
    for (const StageResult& result : more) journal.add(result);
    return journal.results();
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path("sweep.jsonl");
};

TEST_F(SweepJournalTest, WhatWasAddedIsReadBack) {
  EXPECT_TRUE(open(kSweep, {kDone, kFailed}).empty());
  const std::vector<StageResult> read = open(kSweep);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].trial, 1u);
  EXPECT_EQ(read[0].step, 12);
  EXPECT_EQ(read[0].values, kDone.values);
  EXPECT_FALSE(read[0].failed);
  EXPECT_TRUE(read[1].failed);
  EXPECT_EQ(read[1].code, 9);
}

TEST_F(SweepJournalTest, ATornLineIsDropped) {
  open(kSweep, {kDone, kFailed});
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 5);
  EXPECT_EQ(open(kSweep, {kFailed}).size(), 1u);
  EXPECT_EQ(open(kSweep).size(), 2u);
}

TEST_F(SweepJournalTest, HowManyRunAtOnceMayChange) {
  open(kSweep, {kDone});
  EXPECT_EQ(open("recipe: a.yaml\ngrid: {seed: [1, 2]}\nparallel: 3\n").size(), 1u);
}

TEST_F(SweepJournalTest, AnotherSweepIsRefused) {
  open(kSweep, {kDone});
  for (const std::string text :
       {"recipe: a.yaml\ngrid: {seed: [1, 3]}\n", "recipe: b.yaml\ngrid: {seed: [1, 2]}\n",
        "recipe: a.yaml\ngrid: {seed: [1, 2]}\noverrides: {train.batch: 4}\n",
        "recipe: a.yaml\ngrid: {seed: [1, 2]}\nstages: [{until: 4 steps}]\n"}) {
    try {
      open(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "'" + path_ + "' belongs to a sweep with other trials or stages");
      EXPECT_EQ(error.hint(), "give the sweep another 'name', or move its folder away");
      EXPECT_EQ(error.code(), ExitCode::kRecipe);
    }
  }
}

TEST_F(SweepJournalTest, ALineThatIsNoResultIsNotPassedOver) {
  for (const std::string line : {"nonsense", "{\"trial\":0}", "[]"}) {
    std::filesystem::remove(path_);
    open(kSweep);
    std::ofstream(path_, std::ios::app) << line << '\n';
    try {
      open(kSweep);
      FAIL() << line;
    } catch (const IoError& error) {
      EXPECT_EQ(error.what(), "'" + path_ + "' has a line that is not of a sweep: " + line);
    }
  }
}

TEST_F(SweepJournalTest, AFileThatCannotBeWrittenIsNamed) {
  const SweepOptions sweep = sweep_of(kSweep);
  folder_.write("occupied", "");
  const std::string path = folder_.path("occupied/sweep.jsonl");
  try {
    const SweepJournal journal(path, sweep, trials_of(sweep));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), "cannot open '" + path + "': Not a directory");
  }
}

}  // namespace
}  // namespace accel::journal_test
