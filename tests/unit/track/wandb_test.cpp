#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/block_log_reader.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::wandb_test {
namespace {

namespace fs = std::filesystem;

class WandbTrackerTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("wandb", resumed_context(folder_.path(), step, ids));
  }

  std::string log_of(const TrackerNames& ids) const {
    return folder_.path("wandb/" + ids.at("folder") + "/run-" + ids.at("run_id") + ".wandb");
  }

  /// The records of the run's file behind the header and the run itself.
  std::vector<std::string> records(const TrackerNames& ids) const {
    std::vector<std::string> all = block_log_records(file_content(log_of(ids)), 7);
    EXPECT_GE(all.size(), 2u);
    all.erase(all.begin(), all.begin() + 2);
    return all;
  }

  TempFolder folder_;
};

bool holds(const std::string& record, const std::string& text) {
  return record.find(text) != std::string::npos;
}

TEST_F(WandbTrackerTest, ValuesOfOneStepAreOneRow) {
  const auto wandb = tracker();
  wandb->log(10, std::vector<Measurement>{{"train/loss", 0.5}});
  wandb->log(10, std::vector<Measurement>{{"eval/loss", 0.75}});
  wandb->flush(Flush::kReadable);
  EXPECT_EQ(records(wandb->ids()).size(), 0u);
  wandb->flush(Flush::kDurable);
  const auto rows = records(wandb->ids());
  ASSERT_EQ(rows.size(), 2u);  // the row and the summary
  for (const char* text : {"train/loss", "0.5", "eval/loss", "0.75", "_step", "10"}) {
    EXPECT_TRUE(holds(rows[0], text)) << text;
  }
}

TEST_F(WandbTrackerTest, ResumeCutsTheFileToTheCheckpoint) {
  TrackerNames ids;
  {
    const auto wandb = tracker();
    wandb->log(10, std::vector<Measurement>{{"loss", 0.5}});
    wandb->flush(Flush::kDurable);
    ids = wandb->ids();
    wandb->log(20, std::vector<Measurement>{{"stale", 1}});
    wandb->finish(RunStatus::kFinished);
  }
  EXPECT_TRUE(holds(file_content(log_of(ids)), "stale"));
  folder_.write("wandb/" + ids.at("folder") + "/run-" + ids.at("run_id") + ".wandb.synced", "");
  const auto wandb = tracker(10, ids);
  wandb->log(20, std::vector<Measurement>{{"fresh", 2}});
  wandb->finish(RunStatus::kInterrupted);
  EXPECT_EQ(wandb->ids().at("run_id"), ids.at("run_id"));
  EXPECT_FALSE(holds(file_content(log_of(ids)), "stale"));
  EXPECT_FALSE(fs::exists(log_of(ids) + ".synced"));
  const auto rows = records(ids);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(holds(rows[2], "fresh"));
  EXPECT_EQ(rows[2].substr(0, 2), "\x08\x05");  // numbered on
}

TEST_F(WandbTrackerTest, ALostFileStartsAnotherRun) {
  TrackerNames ids = tracker()->ids();
  fs::remove(log_of(ids));
  const auto wandb = tracker(10, ids);
  EXPECT_NE(wandb->ids().at("run_id"), ids.at("run_id"));
  EXPECT_EQ(records(wandb->ids()).size(), 0u);
}

TEST_F(WandbTrackerTest, AnInterruptedRunHasNoEndYet) {
  for (const RunStatus status :
       {RunStatus::kFinished, RunStatus::kFailed, RunStatus::kInterrupted}) {
    const auto wandb = tracker();
    wandb->finish(status);
    EXPECT_EQ(records(wandb->ids()).size(), status == RunStatus::kInterrupted ? 0u : 1u);
  }
}

TEST_F(WandbTrackerTest, ImagesLieInTheRunsFolder) {
  const auto wandb = tracker();
  wandb->image(3, "../sample", {1, 1, 1, {9}});
  wandb->flush(Flush::kDurable);
  const std::string media =
      folder_.path("wandb/" + wandb->ids().at("folder") + "/files/media/images/__/");
  const fs::directory_entry file = *fs::directory_iterator(media);
  EXPECT_TRUE(file.path().filename().string().starts_with("sample_3_"));
  EXPECT_TRUE(holds(records(wandb->ids()).back() + records(wandb->ids())[1],
                    file.path().filename().string()));
}

TEST_F(WandbTrackerTest, AHistogramOfNothingFiniteIsLeftOut) {
  const auto wandb = tracker();
  wandb->histogram(1, "weights", std::vector<float>{std::nanf("")});
  wandb->flush(Flush::kDurable);
  EXPECT_EQ(records(wandb->ids()).size(), 0u);
  wandb->histogram(1, "weights", std::vector<float>{2, 2, std::nanf("")});
  wandb->flush(Flush::kDurable);
  EXPECT_TRUE(holds(records(wandb->ids())[0], "\"bins\":[1.5,"));
}

}  // namespace
}  // namespace accel::wandb_test
