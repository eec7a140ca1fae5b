#include "train/loop/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/unit/train/job/make_job.h"
#include "train/loop/async_checkpointer.h"
#include "train/loop/data_use.h"
#include "train/step/stopwatch.h"

namespace accel::report_test {
namespace {

TEST(ReportTest, AnEvaluationIsOneLine) {
  Progress progress;
  progress.step = 100;
  const std::vector<Measurement> values = {{"eval/accuracy", 0.97}, {"eval/loss", 0.12345}};
  EXPECT_EQ(eval_line(progress, values), "eval at step 100  accuracy 0.9700  loss 0.1235");
}

TEST(ReportTest, WhatWasDrawnOfTheDataIsOneLine) {
  Progress progress;
  progress.epoch = 1;
  progress.step_in_epoch = 3;
  EXPECT_EQ(data_use_line(progress, {{"data/share_1", 0.701}, {"data/share_2", 0.299}}),
            "data of epoch 2  dataset 1 70.1 %  dataset 2 29.9 %");
  progress.step_in_epoch = 0;  // the epoch is over
  EXPECT_EQ(data_use_line(progress, {{"data/left_out", 3}}), "data of epoch 1  3 skipped");
}

TEST(ReportTest, ABatchLargerThanTheDataIsTold) {
  Job job;
  job.batches.batch = 2560;
  job.train_samples = 2560;
  EXPECT_EQ(few_samples_warning(job), "");
  job.train_samples = 2559;
  EXPECT_EQ(
      few_samples_warning(job),
      "the batch of 2,560 samples is larger than the training set of 2,559: each optimizer step "
      "takes the whole set, one epoch");
}

TEST(ReportTest, EachExpectationIsToldWithWhatWasFound) {
  Job job;
  job.recipe.expect = {{"eval/accuracy", {Expectation::Op::kAtLeast, 0.9}},
                       {"eval/loss", {Expectation::Op::kLess, 0.5}},
                       {"train/loss", {Expectation::Op::kLess, 2}}};
  RunState state;
  state.evaluation = {{"eval/accuracy", 0.85}};
  state.last_loss = 1.5;
  const ExpectReport report = check_expectations(job, state);
  EXPECT_FALSE(report.met);
  EXPECT_EQ(report.lines,
            (std::vector<std::string>{"expect eval/accuracy >= 0.9: NOT met, it is 0.8500",
                                      "expect eval/loss < 0.5: NOT met, not measured",
                                      "expect train/loss < 2: met, it is 1.5000"}));
}

/// Stops at once.
class Stopping final : public Callback {
 public:
  std::optional<std::string> stop() const override { return "enough"; }
};

TEST(ReportTest, AFinishedRunIsContinuedByTheOptionThatEndedIt) {
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 40}, eval: {type: synthetic/glyphs, length: "
      "8}, loader: {workers: 0}}\n"
      "train: {until: 20 steps, batch: 16}\n"
      "callbacks: [ema, {type: early_stop, patience: 1}]\n");
  RunState state;
  RunEnd end;
  end.run_dir = "runs/r";
  end.checkpoint = "runs/r/checkpoints/checkpoint_3";
  const auto command = [&] {
    const std::string last = last_screen(*job, state, Stopwatch(), end).back();
    return last.substr(std::min(last.size(), last.find(':')));
  };
  state.progress.step = 20;
  EXPECT_EQ(command(), ": accel-run resume runs/r train.until='40 steps'");
  for (int i = 0; i < 2; ++i) job->callbacks[1]->on_eval(0, {{"eval/loss", 1}});
  EXPECT_EQ(command(), ": accel-run resume runs/r train.until='40 steps' callbacks.1.patience=2");
  state.progress.step = 3;
  EXPECT_EQ(command(), ": accel-run resume runs/r callbacks.1.patience=2");
  end.finished = false;
  EXPECT_EQ(command(), ": accel-run resume runs/r");
  end.finished = true;
  job->callbacks.push_back(std::make_unique<Stopping>());
  EXPECT_EQ(command(), "") << "no option continues it";
}

TEST(ReportTest, TheMetricSaysWhichValueIsBetterUnlessTheRecipeDoes) {
  Job job;
  job.metric_names = {{"eval/loss", false}, {"eval/accuracy", true}};
  EXPECT_FALSE(more_is_better(job));
  job.recipe.checkpoint.keep.metric = "eval/accuracy";
  EXPECT_TRUE(more_is_better(job));
  job.recipe.checkpoint.keep.mode = BestMode::kMin;
  EXPECT_FALSE(more_is_better(job));
}

TEST(StopwatchTest, NamesOnlyThePhasesThatTookTime) {
  Stopwatch watch;
  watch.lap(Phase::kForward);
  EXPECT_EQ(watch.summary(), "forward 100 %");
  EXPECT_GT(watch.seconds(Phase::kForward), 0);
  EXPECT_EQ(watch.seconds(Phase::kSave), 0);
}

}  // namespace
}  // namespace accel::report_test
