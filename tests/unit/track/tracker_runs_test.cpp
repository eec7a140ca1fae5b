// Runs of trackers that are killed before their first checkpoint, or whose files are missing.
#include "track/tracker_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/fake_mlflow.h"
#include "tests/unit/track/resumed_run.h"
#include "track/tracker_thread.h"

namespace accel::tracker_runs_test {
namespace {

namespace fs = std::filesystem;

class TrackerRunsTest : public testing::Test {
 protected:
  /// The ids of a tracker when the run folder is opened at `step` with those of a checkpoint.
  TrackerNames open(int64_t step = 0, TrackerNames of_checkpoint = {}) const {
    TrackerRuns runs(folder_.path());
    TrackerNames ids = runs.ids_for("t", step > 0 ? std::move(of_checkpoint) : TrackerNames());
    runs.save();
    return ids;
  }

  std::unique_ptr<Tracker> tracker(const std::string& yaml, int64_t step = 0,
                                   TrackerNames of_checkpoint = {}) const {
    auto made = build<Tracker>(
        yaml, resumed_context(folder_.path(), step, open(step, std::move(of_checkpoint))));
    TrackerRuns runs(folder_.path());
    runs.built("t", made->ids());
    runs.save();
    return made;
  }

  /// Every file below `dir` with the number of lines that have `text`.
  std::map<std::string, size_t> files(const std::string& dir, const std::string& text) const {
    std::map<std::string, size_t> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path(dir))) {
      if (!entry.is_regular_file()) continue;
      const std::string content = file_content(entry.path().string());
      size_t count = 0;
      for (size_t at = 0; (at = content.find(text, at)) != content.npos; ++at) ++count;
      found[entry.path().lexically_relative(folder_.path()).string()] = count;
    }
    return found;
  }

  std::string file() const { return folder_.path("trackers.json"); }

  TempFolder folder_;
};

/// Without positions, which depend on the digits of times.
TrackerNames identity(TrackerNames ids) {
  for (const char* key : {"bytes", "metrics_bytes", "log_bytes", "runtime"}) ids.erase(key);
  return ids;
}

const std::vector<std::string> kFileTrackers = {"wandb",  "comet",   "clearml", "swanlab",
                                                "mlflow", "dvclive", "trackio", "csv"};

TEST_F(TrackerRunsTest, ARunIsNamedBeforeItIsBuiltAndKeepsItsName) {
  const TrackerNames first = open();
  EXPECT_TRUE(fs::exists(file()));
  TrackerNames second = open();
  EXPECT_EQ(second.erase("accel_run.exists"), 1u);
  EXPECT_EQ(second, first);
  TrackerRuns::ended(folder_.path());
  EXPECT_NE(open().at("accel_run.run"), first.at("accel_run.run")) << "another run";
}

TEST_F(TrackerRunsTest, TheFileSaysWhichRunAndTheCheckpointHowFar) {
  TrackerContext context = resumed_context(folder_.path(), 10, open(10, {{"run_id", "abc"}}));
  EXPECT_EQ(tracked_run(context, "run_id").id, "abc") << "of a checkpoint without the file";
  EXPECT_TRUE(tracked_run(context, "run_id").resumes);
  context.ids = open(10, {{"run_id", "other"}});
  EXPECT_EQ(tracked_run(context, "run_id").id, "abc");
  EXPECT_FALSE(tracked_run(context, "run_id").resumes) << "positions in another run";
  EXPECT_TRUE(tracked_run(context, "run_id").exists);
}

TEST_F(TrackerRunsTest, AnInvalidFileIsAWarning) {
  std::ofstream(file()) << "{\"t\": 5}";
  testing::internal::CaptureStderr();
  open();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: '" + file() + "' is invalid: trackers without a checkpoint start new runs\n");
}

TEST_F(TrackerRunsTest, ARunThatIsKilledBeforeItsFirstCheckpointIsContinuedFromItsStart) {
  for (const std::string& name : kFileTrackers) {
    SCOPED_TRACE(name);
    const std::string yaml = "type: " + name + "\n";
    const auto live = [&](int64_t last) {
      const auto made = tracker(yaml);
      made->config(run_config());
      made->log(0, std::vector<Measurement>{{"eval/loss", 0.5}});  // as of 'eval.at_start'
      log_steps(*made, 1, last, 1.0);
      made->flush(Flush::kDurable);
      return made->ids();
    };
    const TrackerNames first = live(5);
    const auto before = files("", "loss");
    const TrackerNames second = live(5);
    EXPECT_EQ(identity(second), identity(first));
    auto after = files("", "loss");
    for (const char* changing : {"trackio/accel-run.db", "trackio/accel-run.db-wal"}) {
      after[changing] = before.contains(changing) ? before.at(changing) : 0;
    }
    for (const auto& [path, lines] : before) EXPECT_EQ(after[path], lines) << path;
    for (const auto& [path, lines] : after) {
      EXPECT_TRUE(before.contains(path) || lines == 0) << path;
    }
    fs::remove_all(folder_.path());
    fs::create_directories(folder_.path());
  }
}

TEST_F(TrackerRunsTest, ATableOutsideTheRunFolderIsNotSetAsideByItsOwnRun) {
  const std::string yaml = "type: csv\npath: " + folder_.path("table/x.csv") + "\n";
  for (int life = 0; life < 2; ++life) {
    const auto made = tracker(yaml);
    log_steps(*made, 1, 3, 1.0);
    made->flush(Flush::kDurable);
  }
  EXPECT_EQ(file_content(folder_.path("table/x.csv")),
            "step,train/loss\n1,1\n2,0.5\n3,0.3333333333333333\n");
  EXPECT_FALSE(fs::exists(folder_.path("table/x.csv.1")));
}

TEST_F(TrackerRunsTest, MissingFilesAreReplacedByOneRunHoweverOftenItIsKilled) {
  for (const char* name : {"wandb", "comet", "clearml", "swanlab", "mlflow"}) {
    SCOPED_TRACE(name);
    const std::string yaml = "type: " + std::string(name) + "\n";
    TrackerNames checkpoint;
    {
      const auto made = tracker(yaml);
      log_steps(*made, 1, 10, 1.0);
      made->flush(Flush::kDurable);
      checkpoint = made->ids();
    }
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.is_directory()) fs::remove_all(entry.path());
    }
    const TrackerNames second = identity(tracker(yaml, 10, checkpoint)->ids());
    EXPECT_NE(second, identity(checkpoint));
    EXPECT_EQ(identity(tracker(yaml, 10, checkpoint)->ids()), second)
        << "killed before a checkpoint";
    fs::remove_all(folder_.path());
    fs::create_directories(folder_.path());
  }
}

TEST_F(TrackerRunsTest, AServerHasOneRunAndEveryStepOnce) {
  FakeMlflow mlflow;
  FakeServer server;
  server.answer = [&](const HttpRequest& request) -> std::optional<HttpReply> {
    return mlflow.answer(request);
  };
  for (const int64_t last : {5, 8}) {
    NamedTrackers trackers;
    trackers.emplace_back("t", tracker("type: mlflow\nuri: http://far:5000/"));
    TrackerThread run(
        std::move(trackers), [](const std::string&) {}, transport_to(server));
    run.config(run_config());
    for (int64_t step = 0; step <= last; ++step) {
      run.log(step, std::vector<Measurement>{{"loss", 0.5 * static_cast<double>(step)}});
    }
    run.finish(last == 5 ? RunStatus::kInterrupted : RunStatus::kFinished);
  }
  EXPECT_EQ(mlflow.runs, 1);
  EXPECT_EQ(mlflow.metrics["loss"].size(), 9u);
  EXPECT_EQ(mlflow.status, "FINISHED");
}

}  // namespace
}  // namespace accel::tracker_runs_test
