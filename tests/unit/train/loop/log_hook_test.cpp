#include "train/loop/log_hook.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run.h"

namespace accel::log_hook_test {
namespace {

// A task that logs a mean of its own.
const std::string kJob =
    "model: {type: mlp, hidden_sizes: [8]}\n"
    "task: {type: reinforce, max_episode_steps: 20}\n"
    "data: {train: {type: synthetic/cart_pole, length: 64}}\n"
    "optimizer: {type: adam, lr: 0.02}\n"
    "train: {until: 10 steps, batch: 4}\n"
    "log: {every: 4 steps, system: false}\n";

/// The logged lines of a run's record, without the throughput.
std::string means_of(const std::string& run_dir) {
  std::string means, line;
  for (std::ifstream in(run_dir + "/metrics.jsonl"); std::getline(in, line);) {
    if (line.find("\"log\":{") == line.npos) continue;
    const size_t from = line.find("\"train/samples_per_second\"");
    means += line.substr(0, from) + line.substr(line.find(',', from) + 1) + "\n";
  }
  return means;
}

ExitCode train(const std::string& recipe, const std::string& run_dir,
               std::optional<int64_t> stop_after) {
  RunRequest request;
  request.run_dir = run_dir;
  request.stop_after = stop_after;
  return run_job(*make_job(recipe), request);
}

TEST(LogHookTest, AResumeInsideAnIntervalLogsTheStraightRunsMeans) {
  const TempFolder folder;
  train(kJob, folder.path("straight"), std::nullopt);
  const std::string straight = means_of(folder.path("straight"));
  EXPECT_NE(straight.find("{\"step\":8,\"log\":{\"train/loss\":"), straight.npos) << straight;
  EXPECT_NE(straight.find("\"train/length\":"), straight.npos) << straight;
  EXPECT_NE(straight.find("{\"step\":10,"), straight.npos) << straight;

  for (const int64_t step : {2, 6, 7}) train(kJob, folder.path("parts"), step);
  train(kJob, folder.path("parts"), std::nullopt);
  EXPECT_EQ(means_of(folder.path("parts")), straight);
}

TEST(LogHookTest, ACheckpointHasTheSumsOfItsInterval) {
  const auto job = make_job(kJob);
  RunState run;
  EXPECT_EQ(capture(*job, run, {}).sections.at("run").numbers.count("interval/steps"), 0U);
  run.interval = {.steps = 3, .loss = 0.1, .grad_norm = 0.7, .logged = {{"steps/a", {0.3, 2}}}};
  const LogInterval found = restore(*job, capture(*job, run, {})).interval;
  EXPECT_EQ(found.steps, 3);
  EXPECT_EQ(found.loss, 0.1);
  EXPECT_EQ(found.grad_norm, 0.7);
  EXPECT_EQ(found.logged, run.interval.logged);
}

}  // namespace
}  // namespace accel::log_hook_test
