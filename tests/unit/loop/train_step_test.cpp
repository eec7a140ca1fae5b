#include "runner/loop/train_step.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "runner/loop/to_batch.h"
#include "tests/unit/job/make_job.h"

namespace accel {
namespace {

std::string job_text(int64_t micro_batch, const std::string& more = "") {
  return "model: {type: mlp, hidden: [8]}\n"
         "data: {train: {type: synthetic/glyphs, length: 22}, loader: {workers: 0}}\n"
         "optimizer: {type: sgd, lr: 0.5}\n"
         "train: {until: 2 epochs, batch: 16, micro_batch: " +
         std::to_string(micro_batch) + "}\n" + more;
}

StepResult next_step(Job& job, int64_t step) {
  Stopwatch watch;
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  return train_step(job, job.train_loader->next(), {.step = step}, watch);
}

TEST(TrainStepTest, MicroBatchesEqualOneBigBatchTheShortTailIncluded) {
  // 22 samples: the second step of each epoch holds 6, of which the last micro-batch has 2.
  const auto whole = make_job(job_text(16)), parts = make_job(job_text(4));
  for (int64_t step = 1; step <= 4; ++step) {
    const StepResult a = next_step(*whole, step), b = next_step(*parts, step);
    EXPECT_NEAR(a.loss, b.loss, 1e-6) << "step " << step;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5) << "step " << step;
  }
  for (size_t i = 0; i < whole->parameters.size(); ++i) {
    const at::Tensor difference =
        whole->parameters[i].tensor.detach().sub(parts->parameters[i].tensor.detach());
    EXPECT_LT(difference.abs().max().item().toDouble(), 1e-5) << whole->parameters[i].name;
  }
}

TEST(TrainStepTest, WhatEachRankComputedForComesBackByRank) {
  const auto job = make_job(job_text(16));
  Stopwatch watch;
  const StepResult result = train_step(*job, job->train_loader->next(),
                                       {.step = 1, .seconds = 3, .computed = 0.25}, watch);
  EXPECT_EQ(result.computed, RankNumbers{0.25});
  EXPECT_EQ(result.seconds, 3);
}

TEST(TrainStepTest, ANanInTheDataStopsBeforeAnyWeightChanges) {
  const auto job = make_job(job_text(8));
  const at::Tensor before = job->parameters[0].tensor.detach().clone();
  const Window window = job->train_loader->next();
  to_batch(window.micro_batches[0]).inputs.fill_(std::numeric_limits<double>::quiet_NaN());
  Stopwatch watch;
  try {
    train_step(*job, window, {.step = 7}, watch);
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_EQ(std::string(error.what()),
              "step 7: the loss is nan; the weights are those of the step before");
  }
  EXPECT_TRUE(job->parameters[0].tensor.detach().equal(before));
}

TEST(TrainStepTest, AGradientThatOverflowsIsNamed) {
  const auto job = make_job(job_text(16));
  // The loss is finite, the first layer's gradient is not: it is multiplied by these weights.
  job->parameters[2].tensor.detach().mul_(1e30);
  job->parameters[0].tensor.detach().mul_(1e-30);
  const Window window = job->train_loader->next();
  to_batch(window.micro_batches[0]).inputs.mul_(1e25);
  Stopwatch watch;
  try {
    train_step(*job, window, {.step = 3}, watch);
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_NE(std::string(error.what()).find("step 3: the gradient of '"), std::string::npos)
        << error.what();
  }
}

TEST(TrainStepTest, Fp16OverflowSkipsTheUpdateAndHalvesTheScale) {
  const auto job = make_job(job_text(16, "accelerator: {mixed_precision: fp16}\n"));
  job->parameters[2].tensor.detach().mul_(200);
  const at::Tensor before = job->parameters[0].tensor.detach().clone();
  const double scale = job->precision->loss_scale();
  const StepResult result = next_step(*job, 1);
  EXPECT_FALSE(result.updated);
  EXPECT_EQ(job->precision->loss_scale(), scale / 2);
  EXPECT_TRUE(job->parameters[0].tensor.detach().equal(before));
}

TEST(TrainStepTest, ClippingLimitsTheUpdateAndReportsTheTrueNorm) {
  const auto free = make_job(job_text(16));
  const auto clipped = make_job(
      "model: {type: mlp, hidden: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 22}, loader: {workers: 0}}\n"
      "optimizer: {type: sgd, lr: 1.0}\n"
      "train: {batch: 16, max_grad_norm: 0.01}\n");
  const at::Tensor before = clipped->parameters[0].tensor.detach().clone();
  EXPECT_NEAR(next_step(*free, 1).grad_norm, next_step(*clipped, 1).grad_norm, 1e-6);
  const double moved = clipped->parameters[0].tensor.detach().sub(before).norm().item().toDouble();
  EXPECT_LE(moved, 0.0101);
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace accel
