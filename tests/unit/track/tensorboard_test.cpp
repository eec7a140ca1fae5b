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

using Points = std::vector<std::pair<int64_t, std::string>>;

/// The values of a folder in the order of TensorBoard: a restart drops its step and later ones.
Points points_in(const std::string& folder) {
  Points points;
  for (const std::string& name : event_files(folder)) {
    TfEventReader reader(folder + '/' + name);
    while (const std::optional<TfEvent> event = reader.next()) {
      if (event->restarts) std::erase_if(points, [&](auto& it) { return it.first >= event->step; });
      for (const std::string& tag : event->tags) points.emplace_back(event->step, tag);
    }
  }
  return points;
}

void log_value(Tracker& tracker, int64_t step, const std::string& name) {
  tracker.log(step, std::vector<Measurement>{{name, 0.5}});
  tracker.flush(Flush::kReadable);
}

/// Everything that an evaluation at `step` may log.
void log_evaluation(Tracker& tracker, int64_t step) {
  tracker.log(step, std::vector<Measurement>{{"eval/loss", 0.5}, {"eval/accuracy", 0.5}});
  tracker.text(step, "generated", "text");
  tracker.histogram(step, "weights", std::vector<float>{1, 2});
  tracker.image(step, "sample", {1, 1, 1, {7}});
  tracker.flush(Flush::kReadable);
}

TEST(TensorboardTrackerTest, AnEvaluationThatEachResumeRepeatsIsThereOnce) {
  const TempFolder folder;
  log_value(*build<Tracker>("tensorboard", run_in(folder.path())), 8, "train/loss");
  for (int i = 0; i < 3; ++i) {
    const auto tracker = build<Tracker>("tensorboard", run_in(folder.path(), 8));
    log_evaluation(*tracker, 8);
    log_value(*tracker, 9, "train/loss");
  }
  const Points wanted = {
      {8, "train/loss"}, {8, "eval/loss"}, {8, "eval/accuracy"}, {8, "generated/text_summary"},
      {8, "weights"},    {8, "sample"},    {9, "train/loss"}};
  EXPECT_EQ(points_in(folder.path("tensorboard")), wanted);
}

TEST(TensorboardTrackerTest, ATornEvaluationIsCompleted) {
  const TempFolder folder;
  const std::string events = folder.path("tensorboard");
  {
    const auto tracker = build<Tracker>("tensorboard", run_in(folder.path(), 8));
    log_value(*tracker, 8, "eval/loss");
    log_value(*tracker, 8, "eval/accuracy");
  }
  const std::string file = events + '/' + event_files(events).front();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  log_evaluation(*build<Tracker>("tensorboard", run_in(folder.path(), 8)), 8);
  Points points = points_in(events);
  EXPECT_EQ(points.size(), 5u);
  EXPECT_EQ(std::count(points.begin(), points.end(), Points::value_type(8, "eval/loss")), 1);
  EXPECT_EQ(std::count(points.begin(), points.end(), Points::value_type(8, "eval/accuracy")), 1);
}

TEST(TensorboardTrackerTest, ValuesThatARestartDroppedAreLoggedAgain) {
  const TempFolder folder;
  const std::string events = folder.path("tensorboard");
  log_evaluation(*build<Tracker>("tensorboard", run_in(folder.path())), 8);
  log_value(*build<Tracker>("tensorboard", run_in(folder.path(), 4)), 8, "train/loss");
  log_value(*build<Tracker>("tensorboard", run_in(folder.path(), 8)), 8, "eval/loss");
  EXPECT_EQ(points_in(events), (Points{{8, "train/loss"}, {8, "eval/loss"}}));
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
