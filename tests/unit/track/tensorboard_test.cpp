#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "formats/tfevents.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/run_in.h"

namespace accel::tensorboard_test {
namespace {

/// Names of the event files in a folder, in the order readers take them.
std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The file from its third record on: behind the version and the restart.
std::string values_in(const std::string& path) {
  const std::string all = file_content(path);
  const size_t head = tf_version_event(0).size() + tf_restart_event(0, 0).size();
  return all.substr(std::min(head, all.size()));
}

TEST(TensorboardTrackerTest, EveryRunStartsAFileThatReadersTakeLast) {
  const TempFolder folder;
  const TrackerContext context = run_in(folder.path());
  const std::string events = folder.path("tensorboard");
  std::filesystem::create_directories(events);
  const std::string from_the_future = "events.out.tfevents.4000000000.host.1.0";
  folder.write("tensorboard/" + from_the_future, "");
  build<Tracker>("tensorboard", context);
  build<Tracker>("tensorboard", context);
  const std::vector<std::string> names = event_files(events);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0], from_the_future);
  EXPECT_TRUE(names[1].starts_with("events.out.tfevents.4000000001.")) << names[1];
  EXPECT_TRUE(names[2].starts_with("events.out.tfevents.4000000002.")) << names[2];
}

TEST(TensorboardTrackerTest, SharedFolderHoldsAFolderPerRun) {
  const TempFolder folder;
  const TrackerContext context = run_in(folder.path("runs/run"));
  build<Tracker>("type: tensorboard\ndir: " + folder.path("logs"), context);
  EXPECT_EQ(event_files(folder.path("logs/run")).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder.path("runs")));
}

TEST(TensorboardTrackerTest, NameMovesTheRunsFolder) {
  const TempFolder folder;
  const TrackerContext context = run_in(folder.path());
  build<Tracker>("type: tensorboard\ndir: " + folder.path("logs") + "\nname: sweep/3", context);
  EXPECT_EQ(event_files(folder.path("logs/sweep/3")).size(), 1u);
  build<Tracker>("type: tensorboard\nname: mine", context);
  EXPECT_EQ(event_files(folder.path("tensorboard/mine")).size(), 1u);
}

TEST(TensorboardTrackerTest, NameMayNotLeadOutOfTheFolder) {
  EXPECT_EQ(complaint<Tracker>("type: tensorboard\nname: a/../b", run_in("")),
            "recipe.yaml:2:7: error: 'name' must be a relative path without '.' and '..', not "
            "'a/../b'\n"
            "    name: a/../b\n"
            "          ^\n");
}

TEST(TensorboardTrackerTest, LoggedValuesAreReadableAfterAFlush) {
  const TempFolder folder;
  const auto tracker = build<Tracker>("tensorboard", run_in(folder.path()));
  const std::string file =
      folder.path("tensorboard/") + event_files(folder.path("tensorboard")).front();
  EXPECT_EQ(values_in(file), "");
  tracker->log(3, std::vector<Measurement>{{"train/loss", 0.5}});
  tracker->flush(Flush::kReadable);
  EXPECT_NE(values_in(file).find("train/loss"), std::string::npos);
}

TEST(TensorboardTrackerTest, InterruptedRunHasNoEndYet) {
  for (const RunStatus status :
       {RunStatus::kFinished, RunStatus::kFailed, RunStatus::kInterrupted}) {
    const TempFolder folder;
    build<Tracker>("tensorboard", run_in(folder.path()))->finish(status);
    const std::string file =
        folder.path("tensorboard/") + event_files(folder.path("tensorboard")).front();
    const bool ended = values_in(file).find("session_end_info") != std::string::npos;
    EXPECT_EQ(ended, status != RunStatus::kInterrupted);
  }
}

TEST(TensorboardTrackerTest, FolderThatCannotBeMadeIsAnIoError) {
  const TempFolder folder;
  folder.write("tensorboard", "");
  try {
    build<Tracker>("tensorboard", run_in(folder.path()));
    FAIL() << "a file was taken for a folder";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(),
              "cannot make the folder '" + folder.path("tensorboard") + "': Not a directory");
  }
}

}  // namespace
}  // namespace accel::tensorboard_test
