#include "train/step/train_step.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "kernels/choice.h"
#include "kernels/cpu_operators.h"
#include "tests/unit/train/job/make_job.h"
#include "train/step/device_batches.h"

namespace accel::train_step_test {
namespace {

std::string job_text(int64_t micro_batch, const std::string& more = "") {
  return "model: {type: mlp, hidden_sizes: [8]}\n"
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
        whole->parameters[i].local.detach().sub(parts->parameters[i].local.detach());
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
  const at::Tensor before = job->parameters[0].local.detach().clone();
  const GlobalBatch global_batch = job->train_loader->next();
  to_batch(global_batch.micro_batches[0]).inputs.fill_(std::numeric_limits<double>::quiet_NaN());
  Stopwatch watch;
  try {
    train_step(*job, global_batch, {.step = 7}, watch);
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_EQ(std::string(error.what()),
              "step 7: the loss is nan; the weights are those of the step before");
  }
  EXPECT_TRUE(job->parameters[0].local.detach().equal(before));
}

TEST(TrainStepTest, AGradientThatOverflowsIsNamed) {
  const auto job = make_job(job_text(16));
  // The loss is finite, the first layer's gradient is not: it is multiplied by these weights.
  job->parameters[2].local.detach().mul_(1e30);
  job->parameters[0].local.detach().mul_(1e-30);
  const GlobalBatch global_batch = job->train_loader->next();
  to_batch(global_batch.micro_batches[0]).inputs.mul_(1e25);
  Stopwatch watch;
  try {
    train_step(*job, global_batch, {.step = 3}, watch);
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_STREQ(
        error.what(),
        "step 3: the gradient of 'layers.0.weight' is not finite; the weights are those of the "
        "step before");
  }
}

TEST(TrainStepTest, GradientsWhoseNormOverflowsAreRefused) {
  const Kernels before = kernels();
  use_kernels(Kernels::kReference);  // these add squares in single precision
  const auto job = make_job(job_text(16));
  job->parameters[2].local.detach().mul_(1e25);
  job->parameters[0].local.detach().mul_(1e-30);
  try {
    next_step(*job, 3);
    ADD_FAILURE() << "the norm is finite";
  } catch (const DivergedError& error) {
    EXPECT_STREQ(error.what(),
                 "step 3: the norm of the gradients is not finite; the weights are those of the "
                 "step before");
  }
  use_kernels(before);
}

TEST(TrainStepTest, ABatchWithoutATargetIsRefused) {
  const auto job = make_job(
      "model: {type: gpt, num_layers: 1, num_heads: 1, hidden_size: 4}\n"
      "data: {train: {type: synthetic/addition, length: 8}, loader: {workers: 0}}\n"
      "train: {until: 2 steps, batch: 4}\n");
  const GlobalBatch global_batch = job->train_loader->next();
  to_batch(global_batch.micro_batches[0]).targets.fill_(kIgnoredTarget);
  Stopwatch watch;
  try {
    train_step(*job, global_batch, {.step = 2}, watch);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "step 2: every target of the batch is masked");
    EXPECT_EQ(error.hint(), "check the data or raise 'train.batch'");
  }
}

TEST(TrainStepTest, Fp16OverflowAtTheLeastScaleEndsTheRun) {
  const auto job = make_job(job_text(16, "accelerator: {mixed_precision: fp16}\n"));
  StateDict scaler;
  job->precision->save(scaler);
  scaler.numbers["scale"] = 9e-5;
  job->precision->load(scaler);
  // Small outputs, but a gradient of the first layer above 65504.
  job->parameters[0].local.detach().zero_();
  job->parameters[1].local.detach().fill_(1e-3);
  job->parameters[2].local.detach().mul_(1.5e5);
  const GlobalBatch global_batch = job->train_loader->next();
  to_batch(global_batch.micro_batches[0]).inputs.mul_(6e4);
  Stopwatch watch;
  try {
    train_step(*job, global_batch, {.step = 5}, watch);
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_STREQ(error.what(),
                 "step 5: gradients overflow in fp16 even at a loss scale of 9.000000136438757e-5");
    EXPECT_EQ(error.hint(), "use mixed_precision bf16, lower 'optimizer.lr' or check the data");
  }
}

TEST(TrainStepTest, Fp16OverflowSkipsTheUpdateAndHalvesTheScale) {
  const auto job = make_job(job_text(16, "accelerator: {mixed_precision: fp16}\n"));
  job->parameters[2].local.detach().mul_(200);
  const at::Tensor before = job->parameters[0].local.detach().clone();
  const double scale = job->precision->loss_scale();
  const StepResult result = next_step(*job, 1);
  EXPECT_FALSE(result.updated);
  EXPECT_EQ(job->precision->loss_scale(), scale / 2);
  EXPECT_TRUE(job->parameters[0].local.detach().equal(before));
}

TEST(TrainStepTest, ClippingLimitsTheUpdateAndReportsTheTrueNorm) {
  const auto free = make_job(job_text(16));
  const auto clipped = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 22}, loader: {workers: 0}}\n"
      "optimizer: {type: sgd, lr: 1.0}\n"
      "train: {batch: 16, max_grad_norm: 0.01}\n");
  const at::Tensor before = clipped->parameters[0].local.detach().clone();
  EXPECT_NEAR(next_step(*free, 1).grad_norm, next_step(*clipped, 1).grad_norm, 1e-6);
  const double moved = clipped->parameters[0].local.detach().sub(before).norm().item().toDouble();
  EXPECT_LE(moved, 0.0101);
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace accel::train_step_test
