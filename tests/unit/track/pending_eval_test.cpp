// A checkpoint without the evaluation of its step: each process that resumes from it evaluates.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/resumed_run.h"

namespace accel::pending_eval_test {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<Measurement>;

struct PendingEval {
  const char* name;
  const char* file;  ///< the end of its path
  std::vector<std::string> lines;
};

class PendingEvalTest : public testing::TestWithParam<PendingEval> {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t first_step, const TrackerNames& ids) {
    return build<Tracker>(GetParam().name, resumed_context(folder_.path(), first_step, ids));
  }

  static void evaluate(Tracker& tracker) {
    tracker.log(2, Values{{"eval/loss", 0.75}});
    tracker.log(3, Values{{"train/loss", 0.125}});
    tracker.flush(Flush::kReadable);
  }

  /// Without times, which differ.
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string path = entry.path().string();
      if (!path.ends_with(GetParam().file)) continue;
      std::istringstream in(file_content(path));
      for (std::string line; std::getline(in, line);) found.push_back(line);
    }
    return found;
  }

  TempFolder folder_;
};

TEST_P(PendingEvalTest, IsRecordedOnce) {
  const auto first = tracker(0, {});
  first->log(1, Values{{"train/loss", 0.5}});
  first->log(2, Values{{"train/loss", 0.25}});
  first->flush(Flush::kDurable);
  const TrackerNames ids = first->ids();
  evaluate(*tracker(2, ids));  // ended before the next checkpoint
  const auto last = tracker(2, ids);
  evaluate(*last);
  last->finish(RunStatus::kFinished);
  std::vector<std::string> found = lines();
  for (std::string& line : found) {
    if (std::string(GetParam().name) == "mlflow") line = line.substr(line.find(' ') + 1);
  }
  EXPECT_EQ(found, GetParam().lines);
}

INSTANTIATE_TEST_SUITE_P(
    All, PendingEvalTest,
    testing::Values(PendingEval{"csv",
                                "metrics.csv",
                                {"step,train/loss,eval/loss", "1,0.5,", "2,0.25,0.75", "3,0.125,"}},
                    PendingEval{"dvclive", "eval/loss.tsv", {"step\tloss", "2\t0.75"}},
                    PendingEval{"mlflow", "metrics/eval/loss", {"0.75 2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accel::pending_eval_test
