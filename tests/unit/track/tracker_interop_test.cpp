// Lets the real packages read what the trackers write.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::tracker_interop_test {
namespace {

/// Python that has the packages; null skips the test.
const char* python() {
  return std::getenv("ACCEL_TRACKERS_PYTHON");
}

/// What a kill in the middle of a write leaves.
void tear(const std::filesystem::path& file) {
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 9);
}

int check(const std::string& script, const std::string& folder) {
  const std::string command = std::string(python()) + ' ' + std::getenv("ACCEL_SOURCE_DIR") +
                              "/tests/interop/" + script + ' ' + folder;
  return std::system(command.c_str());
}

TEST(TrackerInteropTest, WandbUploadsAResumedRunAsOne) {
  if (!python()) GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the wandb package";
  const TempFolder folder;
  const std::string yaml = "type: wandb\nproject: proj\ntags: [a, b]\nnotes: tried";
  const TrackerNames ids = first_life(yaml, folder.path());
  const std::string run = folder.path("wandb/" + ids.at("folder"));
  tear(run + "/run-" + ids.at("run_id") + ".wandb");
  second_life(yaml, folder.path(), ids);
  EXPECT_EQ(check("check_wandb.py", run), 0);
}

TEST(TrackerInteropTest, MlflowReadsAResumedRunInItsFileStore) {
  if (!python())
    GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the mlflow package";
  const TempFolder folder;
  const std::string yaml =
      "type: mlflow\nexperiment: tests\nnotes: tried\ndir: " + folder.path("st ore");
  const TrackerNames ids = first_life(yaml, folder.path());
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path("st ore"))) {
    if (entry.path().filename() == "loss") tear(entry.path());
  }
  second_life(yaml, folder.path(), ids);
  EXPECT_EQ(check("check_mlflow_files.py", "'" + folder.path("st ore") + "'"), 0);
}

TEST(TrackerInteropTest, TrackioShowsAResumedRunAsOne) {
  if (!python())
    GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the trackio package";
  const TempFolder folder;
  const std::string yaml = "type: trackio\nproject: proj";
  second_life(yaml, folder.path(), first_life(yaml, folder.path()));
  EXPECT_EQ(check("check_trackio.py", folder.path("trackio")), 0);
}

TEST(TrackerInteropTest, DvcShowsAResumedRunAsOne) {
  if (!python())
    GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the dvclive package";
  const TempFolder folder;
  const TrackerNames ids = first_life("dvclive", folder.path());
  tear(folder.path("dvclive/plots/metrics/train/loss.tsv"));
  second_life("dvclive", folder.path(), ids);
  EXPECT_EQ(check("check_dvclive.py", folder.path("dvclive")), 0);
}

TEST(TrackerInteropTest, CometUploadsAResumedRunAsOne) {
  if (!python())
    GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the comet_ml package";
  const TempFolder folder;
  const std::string yaml = "type: comet\nproject: proj\ntags: [a, b]";
  const TrackerNames ids = first_life(yaml, folder.path());
  const std::string experiment = folder.path("comet/" + ids.at("key"));
  tear(experiment + "/messages.json");
  second_life(yaml, folder.path(), ids);
  EXPECT_EQ(check("check_comet.py", experiment + ".zip"), 0);
}

TEST(TrackerInteropTest, ClearmlImportsAResumedRunAsOne) {
  if (!python())
    GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the clearml package";
  const TempFolder folder;
  const std::string yaml = "type: clearml\nproject: proj\ntags: [a, b]";
  const TrackerNames ids = first_life(yaml, folder.path());
  const std::string session = folder.path("clearml/" + ids.at("task"));
  tear(session + "/metrics.jsonl");
  second_life(yaml, folder.path(), ids);
  EXPECT_EQ(check("check_clearml.py", session + ".zip"), 0);
}

TEST(TrackerInteropTest, SwanlabUploadsAResumedRunAsOne) {
  if (!python())
    GTEST_SKIP() << "ACCEL_TRACKERS_PYTHON names no Python that has the swanlab package";
  const TempFolder folder;
  const std::string yaml =
      "type: swanlab\nproject: proj\nworkspace: us\ntags: [a, b]\nnotes: tried";
  const TrackerNames ids = first_life(yaml, folder.path());
  const std::string run = folder.path("swanlog/" + ids.at("folder"));
  tear(run + "/run-" + ids.at("run_id") + ".swanlab");
  second_life(yaml, folder.path(), ids);
  EXPECT_EQ(check("check_swanlab.py", run), 0);
}

}  // namespace
}  // namespace accel::tracker_interop_test
