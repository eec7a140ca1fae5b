// Lets the real TensorBoard package read what the tracker writes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/run_in.h"

namespace accel::tensorboard_interop_test {
namespace {

const std::vector<Measurement> kEvaluation = {{"eval/loss", 0.5}};

void log_tensorboard_steps(Tracker& tracker, int64_t first, int64_t last, double scale) {
  for (int64_t step = first; step <= last; ++step) {
    tracker.log(step, std::vector<Measurement>{{"train/loss", scale / static_cast<double>(step)}});
  }
  tracker.flush(Flush::kReadable);
}

/// What a kill in the middle of a write leaves: half a record at the end of the only file.
void tear_last_record(const std::string& folder) {
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 9);
  }
}

void write_resumed_run(const std::string& run_dir) {
  const std::vector<std::pair<std::string, std::string>> config = {
      {"optimizer.lr", "0.001"}, {"train.deterministic", "true"}, {"model.type", "mlp"}};
  {
    const auto tracker = build<Tracker>("tensorboard", run_in(run_dir));
    tracker->config(config);
    tracker->text(1, "note", "**bold** \xc3\xa9 \xff");
    tracker->log(1, std::vector<Measurement>{{"train/nan", std::nan("")}});
    std::vector<float> weights;
    for (int i = 0; i < 1000; ++i) weights.push_back(static_cast<float>((i - 300) * 0.01));
    tracker->image(1, "sample", {2, 3, 1, {0, 50, 100, 150, 200, 250}});
    tracker->histogram(1, "weights", weights);
    log_tensorboard_steps(*tracker, 1, 120, 1.0);
  }
  tear_last_record(run_dir + "/tensorboard");
  // Killed after the evaluation of the step from which it resumes.
  build<Tracker>("tensorboard", run_in(run_dir, 100))->log(100, kEvaluation);
  const auto tracker = build<Tracker>("tensorboard", run_in(run_dir, 100));
  tracker->config(config);
  tracker->log(100, kEvaluation);
  log_tensorboard_steps(*tracker, 101, 150, 2.0);
  tracker->finish(RunStatus::kFinished);
}

TEST(TensorboardInteropTest, TensorBoardShowsAResumedRunAsOne) {
  const char* python = std::getenv("ACCEL_PYTHON");
  if (!python) GTEST_SKIP() << "ACCEL_PYTHON names no Python that has the tensorboard package";
  const TempFolder folder;
  write_resumed_run(folder.path());
  const std::string command = std::string(python) + ' ' + std::getenv("ACCEL_SOURCE_DIR") +
                              "/tests/interop/check_tensorboard.py " + folder.path("tensorboard");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace accel::tensorboard_interop_test
