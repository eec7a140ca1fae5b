// A run that goes on from a checkpoint does not draw the weights that this replaces.
#include <gtest/gtest.h>

#include <filesystem>

#include "runner/loop/run.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/job/make_job.h"

namespace accel {
namespace {

const std::string kJob =
    "model: {type: mlp, hidden: [8]}\n"
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
  for (const NamedTensor& item : job.parameters) weights.push_back(item.tensor.detach().clone());
  return weights;
}

TEST(UndrawnRunTest, EndsWithTheWeightsOfOneThatDrew) {
  const TempFolder folder;
  RunRequest request;
  request.run_dir = folder.path("whole");
  const auto whole = job_of(kJob, false);
  EXPECT_FALSE(whole->is_undrawn);
  EXPECT_FALSE(has_checkpoint(whole->recipe, request));
  const std::vector<at::Tensor> wanted = weights_after(*whole, request);

  request.run_dir = folder.path("parts");
  request.stop_after = 3;
  run_job(*job_of(kJob, false), request);
  EXPECT_TRUE(has_checkpoint(whole->recipe, request));
  request.stop_after.reset();
  const auto rest = job_of(kJob, true);
  EXPECT_TRUE(rest->is_undrawn);
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
    EXPECT_EQ(error.what(),
              "the checkpoints of '" + request.run_dir + "' have gone since this process started");
    EXPECT_EQ(error.hint(), "start it again, if they are to be gone");
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
  EXPECT_FALSE(
      make_job(kJob, world, {{.name = "vendor", .version = "1", .sha256 = "ab"}})->is_undrawn);
}

/// One of two ranks that never hear of each other.
class HalfOfTwo final : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t world() const override { return 2; }
  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* what) override {
    return alone_.start_all_reduce(tensor, op, what);
  }
  void broadcast(at::Tensor, int64_t, const char*) override {}
  at::Tensor all_gather(const at::Tensor& tensor, const char* what) override {
    return alone_.all_gather(tensor, what);
  }
  void barrier(const char*) override {}

 private:
  SingleProcess alone_;
};

TEST(UndrawnRunTest, SeveralRanksCompareWhatTheyDraw) {
  World world;
  world.group = std::make_shared<HalfOfTwo>();
  world.has_checkpoint = true;
  EXPECT_FALSE(make_job(kJob, world)->is_undrawn);
}

TEST(UndrawnRunTest, WhatDrawsBehindTheModelNeedsItsDraws) {
  EXPECT_FALSE(job_of(kJob + "task: {type: distill, teacher: mlp}\n", true)->is_undrawn);
  EXPECT_TRUE(
      job_of(kJob + "task: {type: classification, label_smoothing: 0.1}\n", true)->is_undrawn);
}

}  // namespace
}  // namespace accel
