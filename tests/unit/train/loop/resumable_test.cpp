// Jobs that differ from their checkpoint in plugins or environment.
#include "train/loop/resumable.h"

#include <gtest/gtest.h>

#include "core/recipe/node.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run_state.h"

namespace accel::resumable_test {
namespace {

std::unique_ptr<Job> job_with(std::vector<PluginIdentity> plugins) {
  return make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 40}, loader: {workers: 0}}\n"
      "train: {until: 20 steps, batch: 16}\n",
      {}, std::move(plugins));
}

TrainState state_of(const Job& job) {
  TrainState state = capture(job, RunState(), {});
  state.recipe = to_yaml(job.resolved);
  return state;
}

std::string refusal(const Job& job, const TrainState& state,
                    const std::vector<std::string>& allowed = {}) {
  return complaint([&] { check_resumable(job, state, allowed, {}); });
}

TEST(ResumableTest, PluginsMustBeTheSame) {
  const auto saved = job_with({{.name = "vendor", .version = "1", .sha256 = "ab"}});
  const auto none = job_with({}),
             newer = job_with({{.name = "vendor", .version = "2", .sha256 = "cd"}});
  const TrainState state = state_of(*saved);
  EXPECT_EQ(refusal(*saved, state), "");
  EXPECT_EQ(refusal(*none, state),
            "the checkpoint was made with the plugin 'vendor' (1, sha256 ab), which the recipe "
            "does not load\n"
            "add it to 'plugins', or add --allow plugins");
  EXPECT_EQ(refusal(*newer, state),
            "the plugin 'vendor' has changed since the checkpoint: it was 1, sha256 ab, and is 2, "
            "sha256 cd\n"
            "restore the old file, or add --allow plugins");
  EXPECT_EQ(refusal(*none, state, {"plugins"}), "");
}

TEST(ResumableTest, AnotherEnvironmentIsAWarning) {
  const auto job = job_with({});
  TrainState state = state_of(*job);
  const std::string now = state.provenance.at("torch");
  state.provenance["torch"] = "1.0.0";
  testing::internal::CaptureStderr();
  EXPECT_EQ(refusal(*job, state), "");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: a bit-exact resume is not guaranteed: 'torch' was 1.0.0 and is " + now + "\n");
}

TEST(ResumableTest, WeightsInPercentDependOnTheLengthOfTheRun) {
  const auto job = [](const std::string& until, const std::string& point) {
    return make_job(
        "model: {type: mlp, hidden_sizes: [8]}\ndata:\n  train:\n"
        "    - {type: synthetic/regression, length: 40, weight: {0: 1, " +
        point + ": 2}}\n    - {type: synthetic/regression, length: 40, weight: 1}\n" +
        "train: {until: " + until + ", batch: 16}\n");
  };
  const TrainState state = state_of(*job("20 steps", "50%"));
  const auto longer = job("30 steps", "50%");
  EXPECT_EQ(refusal(*longer, state, {"train.until"}),
            "the training data has changed since the checkpoint: a 'weight' has points in percent "
            "of 'train.until', which was 20 steps and is 30 steps\n"
            "keep 'train.until', or write the points in steps, or add --allow data");
  const TrainState by_step = state_of(*job("20 steps", "7"));
  EXPECT_EQ(refusal(*job("30 steps", "7"), by_step, {"train.until"}), "");
}

}  // namespace
}  // namespace accel::resumable_test
