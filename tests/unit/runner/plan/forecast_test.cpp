#include "runner/plan/forecast.h"

#include <gtest/gtest.h>

#include "tests/unit/runner/report/recorded_run.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/torch_setup.h"

namespace accel::forecast_test {
namespace {

constexpr auto kJob =
    "model: {type: mlp, hidden_sizes: [8], dropout: 0.5}\n"
    "data: {train: {type: synthetic/glyphs, length: 320}}\n"
    "train: {until: 4 steps, batch: 32}\n"
    "accelerator: {num_cpu_threads_per_process: 1}\n";

TEST(ForecastTest, IsThePlanOfTheJobAndLeavesTheProcessAsItWas) {
  const auto job = make_job(kJob);
  set_threads(2);
  const at::Tensor random = generator_state();
  const at::Tensor weights = job->parameters.front().local.clone();
  const Forecast found = forecast(*job, "/no/such/run").value();
  EXPECT_EQ(found.parameters, 784 * 8 + 8 + 8 * 10 + 10);
  EXPECT_EQ(found.flops, 2.0 * 32 * (2 * 784 * 8 + 3 * 8 * 10));
  EXPECT_EQ(found.step_seconds, 0);
  EXPECT_GT(found.memory, 20 << 20);  // libtorch alone is more
  EXPECT_TRUE(generator_state().equal(random));
  EXPECT_TRUE(job->parameters.front().local.equal(weights));
  EXPECT_EQ(threads(), 2);
}

TEST(ForecastTest, WhatCannotBePlannedIsNoFailure) {
  const auto job = make_job(kJob);
  set_threads(2);
  job->recipe.model = {};
  testing::internal::CaptureStdout();
  EXPECT_FALSE(forecast(*job, "/no/such/run"));
  EXPECT_TRUE(testing::internal::GetCapturedStdout().starts_with("no forecast of the run: "));
  EXPECT_EQ(threads(), 2);
}

TEST(ForecastTest, AStepTakesAsLongAsInARunOfTheSameBatchAndRanks) {
  RecordedRun run;
  run.record().plan(0, std::vector<Measurement>{{"batch", 32}, {"ranks", 1}});
  run.train(20);  // a second of data and forward in ten steps
  run.record().use(20, std::vector<Measurement>{{"time/eval", 50}, {"time/save", 50}});
  run.flush();
  EXPECT_EQ(known_step_seconds(run.dir(), {.batch = 32, .world = 1}), 0.1);
  EXPECT_EQ(known_step_seconds(run.dir(), {.batch = 64, .world = 1}), 0);
  EXPECT_EQ(known_step_seconds(run.dir(), {.batch = 32, .world = 2}), 0);
  run.record().plan(20, std::vector<Measurement>{{"batch", 64}, {"ranks", 1}});
  run.record().use(30, std::vector<Measurement>{{"time/forward", 2}});
  run.flush();
  EXPECT_EQ(known_step_seconds(run.dir(), {.batch = 32, .world = 1}), 0) << "of its last part";
  EXPECT_EQ(known_step_seconds(run.dir(), {.batch = 64, .world = 1}), 0.2);
  EXPECT_EQ(known_step_seconds("/no/such/run", {.batch = 32, .world = 1}), 0);
}

}  // namespace
}  // namespace accel::forecast_test
