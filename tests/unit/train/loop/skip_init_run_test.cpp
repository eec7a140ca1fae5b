// A run that resumes from a checkpoint does not draw the weights that this replaces.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run.h"

namespace accel::skip_init_run_test {
namespace {

const std::string kJob =
    "model: {type: mlp, hidden_sizes: [8]}\n"
    "data: {train: {type: synthetic/glyphs, length: 64}}\n"
    "optimizer: {type: adamw, lr: 0.01}\n"
    "train: {until: 6 steps, batch: 4}\n";

std::unique_ptr<Job> job_of(const std::string& recipe, bool has_checkpoint) {
  World world;
  world.has_checkpoint = has_checkpoint;
  return make_job(recipe, world);
}

std::vector<at::Tensor> weights_after(Job& job, const RunRequest& request) {
  EXPECT_EQ(run_job(job, request), ExitCode::kDone);
  std::vector<at::Tensor> weights;
  for (const Parameter& item : job.parameters) weights.push_back(item.local.detach().clone());
  return weights;
}

TEST(UndrawnRunTest, EndsWithTheWeightsOfOneThatDrew) {
  const TempFolder folder;
  RunRequest request;
  request.run_dir = folder.path("whole");
  const auto whole = job_of(kJob, false);
  EXPECT_FALSE(whole->weights_uninitialized);
  EXPECT_FALSE(has_checkpoint(whole->recipe, request));
  const std::vector<at::Tensor> wanted = weights_after(*whole, request);

  request.run_dir = folder.path("parts");
  request.stop_after = 3;
  run_job(*job_of(kJob, false), request);
  EXPECT_TRUE(has_checkpoint(whole->recipe, request));
  request.stop_after.reset();
  const auto rest = job_of(kJob, true);
  EXPECT_TRUE(rest->weights_uninitialized);
  const std::vector<at::Tensor> found = weights_after(*rest, request);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

TEST(UndrawnRunTest, NeverStartsWithoutACheckpoint) {
  const TempFolder folder;
  RunRequest request;
  request.run_dir = folder.path("run");
  const auto job = job_of(kJob, true);
  try {
    run_job(*job, request);
    FAIL() << "it trained weights that nobody drew";
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.what(), text("the checkpoints of '{}' were deleted after this process started",
                                 request.run_dir));
    EXPECT_EQ(error.hint(), "start it again if that was intended");
  }
}

TEST(UndrawnRunTest, ACheckpointFromElsewhereMayLackSome) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path("run/checkpoints/checkpoint_3"));
  RunRequest request;
  request.run_dir = folder.path("run");
  EXPECT_TRUE(has_checkpoint(job_of(kJob, false)->recipe, request));
  const auto given = job_of(kJob + "checkpoint: {resume: " + folder.path("other") + "}\n", false);
  EXPECT_FALSE(has_checkpoint(given->recipe, request));
}

TEST(UndrawnRunTest, APluginMayKeepWhatItDraws) {
  World world;
  world.has_checkpoint = true;
  EXPECT_FALSE(make_job(kJob, world, {{.name = "vendor", .version = "1", .sha256 = "ab"}})
                   ->weights_uninitialized);
}

TEST(UndrawnRunTest, SeveralRanksCompareWhatTheyDraw) {
  World world;
  world.mesh = data_parallel_mesh(std::make_shared<FakeGroup>(2));
  world.has_checkpoint = true;
  EXPECT_FALSE(make_job(kJob, world)->weights_uninitialized);
}

TEST(UndrawnRunTest, WhatDrawsBehindTheModelNeedsItsDraws) {
  EXPECT_FALSE(job_of(kJob + "task: {type: distill, teacher: mlp}\n", true)->weights_uninitialized);
  EXPECT_TRUE(job_of(kJob + "task: {type: classification, label_smoothing: 0.1}\n", true)
                  ->weights_uninitialized);
}

}  // namespace
}  // namespace accel::skip_init_run_test
