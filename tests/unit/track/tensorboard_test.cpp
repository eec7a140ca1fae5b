#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "runner/formats/tfevents.h"
#include "tests/unit/track/temp_folder.h"
#include "tests/unit/track/tracker_testing.h"

namespace accel {
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
  const std::string all = read_text(path);
  const size_t head = tf_version_event(0).size() + tf_restart_event(0, 0).size();
  return all.substr(std::min(head, all.size()));
}

TEST(TensorboardTrackerTest, EveryRunStartsAFileThatReadersTakeLast) {
  const TempFolder folder;
  const TrackerContext context = run_in(folder.path());
  const std::string events = folder.file("tensorboard");
  std::filesystem::create_directories(events);
  const std::string from_the_future = "events.out.tfevents.4000000000.host.1.0";
  write_text(events + '/' + from_the_future, "");
  make_tracker("tensorboard", context);
  make_tracker("tensorboard", context);
  const std::vector<std::string> names = event_files(events);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0], from_the_future);
  EXPECT_TRUE(names[1].starts_with("events.out.tfevents.4000000001.")) << names[1];
  EXPECT_TRUE(names[2].starts_with("events.out.tfevents.4000000002.")) << names[2];
}

TEST(TensorboardTrackerTest, SharedFolderHoldsAFolderPerRun) {
  const TempFolder folder;
  const TrackerContext context = run_in(folder.file("runs/run"));
  make_tracker("type: tensorboard\ndir: " + folder.file("logs"), context);
  EXPECT_EQ(event_files(folder.file("logs/run")).size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder.file("runs")));
}

TEST(TensorboardTrackerTest, LoggedValuesAreReadableAfterAFlush) {
  const TempFolder folder;
  const auto tracker = make_tracker("tensorboard", run_in(folder.path()));
  const std::string file =
      folder.file("tensorboard/") + event_files(folder.file("tensorboard")).front();
  EXPECT_EQ(values_in(file), "");
  tracker->log(3, std::vector<Measurement>{{"train/loss", 0.5}});
  tracker->flush();
  EXPECT_NE(values_in(file).find("train/loss"), std::string::npos);
}

TEST(TensorboardTrackerTest, InterruptedRunHasNoEndYet) {
  for (const RunStatus status :
       {RunStatus::kFinished, RunStatus::kFailed, RunStatus::kInterrupted}) {
    const TempFolder folder;
    make_tracker("tensorboard", run_in(folder.path()))->finish(status);
    const std::string file =
        folder.file("tensorboard/") + event_files(folder.file("tensorboard")).front();
    const bool ended = values_in(file).find("session_end_info") != std::string::npos;
    EXPECT_EQ(ended, status != RunStatus::kInterrupted);
  }
}

TEST(TensorboardTrackerTest, FolderThatCannotBeMadeIsAnIoError) {
  const TempFolder folder;
  write_text(folder.file("tensorboard"), "");
  try {
    make_tracker("tensorboard", run_in(folder.path()));
    FAIL() << "a file was taken for a folder";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(),
              "cannot make the folder '" + folder.file("tensorboard") + "': Not a directory");
  }
}

}  // namespace
}  // namespace accel
