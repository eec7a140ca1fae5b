// Run folders that are removed or moved during a run.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/track/run_in.h"

namespace accel::removed_folder_test {
namespace {

namespace fs = std::filesystem;

struct RemovedFolder {
  const char* name;
  const char* options;      ///< DIR: a folder outside of the run
  std::string first_error;  ///< its start; RUN: the lost folder. "": it writes to open files
};

std::string replaced(std::string text, const std::string& name, const std::string& value) {
  const size_t at = text.find(name);
  return at == text.npos ? text : text.replace(at, name.size(), value);
}

class RemovedFolderTest : public testing::TestWithParam<RemovedFolder> {
 protected:
  RemovedFolderTest() { fs::create_directories(run_); }

  std::unique_ptr<Tracker> tracker() {
    auto made = build<Tracker>(replaced(GetParam().options, "DIR", outside_), run_in(run_));
    made->config({{"optimizer.lr", "0.001"}});
    log(*made, 1, "train/loss");
    return made;
  }

  static void log(Tracker& tracker, int64_t step, const std::string& name) {
    tracker.log(step, std::vector<Measurement>{{name, 0.5}});
    tracker.flush(Flush::kReadable);
  }

  /// Calls the tracker as its thread does.
  void call(const std::function<void()>& event) {
    try {
      event();
    } catch (const std::exception& error) {
      if (first_error_.empty()) first_error_ = error.what();
    }
  }

  void step(Tracker& tracker) {
    call([&] { log(tracker, 2, "train/loss"); });
    call([&] { log(tracker, 2, "eval/loss"); });
    call([&] { tracker.text(2, "note", "text"); });
    call([&] { tracker.image(2, "sample", {2, 3, 1, {0, 50, 100, 150, 200, 250}}); });
    call([&] { tracker.histogram(2, "weights", std::vector<float>{1, 2}); });
    call([&] { tracker.config({{"optimizer.lr", "0.002"}}); });
    call([&] { tracker.flush(Flush::kDurable); });
  }

  std::string expected() const { return replaced(GetParam().first_error, "RUN", lost()); }
  /// The folder that is lost during the run.
  std::string lost() const { return fs::exists(outside_) ? outside_ : run_; }

  TempFolder folder_;
  std::string run_ = folder_.path("run"), outside_ = folder_.path("outside/here");
  std::string first_error_;
};

TEST_P(RemovedFolderTest, NothingComesBack) {
  const auto made = tracker();
  const std::string gone = lost(), wanted = expected();
  fs::remove_all(gone);
  step(*made);
  EXPECT_FALSE(fs::exists(gone));
  const std::string end = wanted.empty() ? "" : ": No such file or directory";
  EXPECT_TRUE(first_error_.starts_with(wanted) && first_error_.ends_with(end)) << first_error_;
  EXPECT_EQ(first_error_.empty(), wanted.empty()) << first_error_;
}

TEST_P(RemovedFolderTest, NothingComesBackAtTheEnd) {
  auto made = tracker();
  const std::string gone = lost();
  fs::rename(gone, folder_.path("moved"));
  call([&] { made->finish(RunStatus::kFinished); });
  made.reset();
  EXPECT_FALSE(fs::exists(gone));
}

TEST_P(RemovedFolderTest, ARunFolderIsNotMade) {
  if (std::string(GetParam().options).find("DIR") != std::string::npos) return;
  fs::remove_all(run_);
  call([&] { tracker(); });
  EXPECT_FALSE(fs::exists(run_));
  EXPECT_TRUE(first_error_.starts_with("cannot make the folder '" + run_)) << first_error_;
}

INSTANTIATE_TEST_SUITE_P(
    All, RemovedFolderTest,
    testing::Values(
        RemovedFolder{"csv", "csv", "cannot write 'RUN/metrics.csv'"},
        RemovedFolder{"clearml", "clearml", "cannot make the folder 'RUN/clearml/offline-"},
        RemovedFolder{"comet", "comet", "cannot make the folder 'RUN/comet/"},
        RemovedFolder{"dvclive", "dvclive", "cannot write 'RUN/dvclive/metrics.json'"},
        RemovedFolder{"mlflow", "mlflow", "cannot make the folder 'RUN/mlruns/"},
        RemovedFolder{"mlflow_server", "{type: mlflow, uri: 'http://127.0.0.1:1'}",
                      "cannot make the folder 'RUN/mlflow/artifacts"},
        RemovedFolder{"swanlab", "swanlab", "cannot make the folder 'RUN/swanlog/run-"},
        RemovedFolder{"tensorboard", "tensorboard", ""},
        RemovedFolder{"trackio", "trackio", "cannot make the folder 'RUN/trackio/media/"},
        RemovedFolder{"wandb", "wandb", "cannot make the folder 'RUN/wandb/offline-run-"},
        RemovedFolder{"dvclive_elsewhere", "{type: dvclive, dir: 'DIR'}",
                      "cannot write 'RUN/metrics.json'"},
        RemovedFolder{"mlflow_elsewhere", "{type: mlflow, dir: 'DIR'}",
                      "cannot make the folder 'RUN/"},
        RemovedFolder{"wandb_elsewhere", "{type: wandb, dir: 'DIR'}",
                      "cannot make the folder 'RUN/offline-run-"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accel::removed_folder_test
