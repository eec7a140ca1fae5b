// The best evaluation of a run, among some that are NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/store.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run.h"

namespace accel::best_checkpoint_test {
namespace {

/// NaN in every other evaluation, of one batch each, from the first.
class Flaky final : public Metric {
 public:
  static constexpr auto kName = "acme/flaky";
  static constexpr auto kSummary = "For tests.";
  struct Options {};
  static Schema<Options> schema() { return {}; }
  Flaky(const Options&, const MetricContext&) {}

  void update(const EvalStep&) override { ++evaluations_; }
  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{"flaky", evaluations_ % 2 == 1 ? std::nan("") : evaluations_}};
  }
  bool higher_is_better() const override { return false; }

 private:
  int evaluations_ = 0;
  std::vector<double> sums_;
};
const Register<Flaky> flaky;

TEST(BestCheckpointTest, ANanIsNeverTheBest) {
  const TempFolder folder;
  RunRequest request;
  request.run_dir = folder.path("run");
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 64}, eval: {type: synthetic/glyphs, length: "
      "4}}\n"
      "train: {until: 5 steps, batch: 4}\n"
      "eval: {every: 1 steps, metrics: [acme/flaky]}\n"
      "checkpoint: {keep: {last: 1, best: 1, metric: eval/flaky}}\n");
  EXPECT_EQ(run_job(*job, request), ExitCode::kDone);
  DiskFiles files;
  const CheckpointStore store(files, request.run_dir);
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : store.list()) steps.push_back(entry.step);
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 5}));
  const TrainState last = store.load(request.run_dir + "/checkpoints/checkpoint_5", {});
  EXPECT_EQ(last.sections.at("run").numbers.at("best"), 2);
  EXPECT_EQ(last.sections.at("run").numbers.at("best_step"), 2);
}

}  // namespace
}  // namespace accel::best_checkpoint_test
