#include "train/loop/plan_check.h"

#include <gtest/gtest.h>

#include "runner/report/run_summary.h"
#include "tests/unit/runner/report/recorded_run.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::plan_check_test {
namespace {

constexpr auto kJob =
    "model: {type: mlp, hidden_sizes: [8]}\n"
    "data: {train: {type: synthetic/glyphs, length: 32}}\n"
    "train: {until: 4 steps, batch: 8}\n";
constexpr int64_t kParameters = 784 * 8 + 8 + 8 * 10 + 10;

Stopwatch half_second() {
  Stopwatch watch;
  watch.lap(Phase::kForward);
  return watch;
}

TEST(PlanCheckTest, PlanAndRunAreComparedAndRecorded) {
  const auto job = make_job(kJob);
  RecordedRun run;
  const Forecast forecast{
      .parameters = kParameters, .memory = int64_t{1} << 40, .flops = 5e9, .step_seconds = 1e9};
  const PlanCheck check(forecast, run.record());
  const auto line = check.look(*job, 3, 2, half_second());
  run.flush();
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->starts_with("6370 parameters, as planned; memory ")) << *line;
  EXPECT_NE(line->find(" MiB, planned 1048576.0 MiB (x 0.0"), line->npos) << *line;
  EXPECT_NE(line->find(" s, planned 1e+09 s (x "), line->npos) << *line;
  const RunSummary summary = read_run(run.dir());
  EXPECT_EQ(summary.actual.at("parameters"), kParameters);
  EXPECT_GT(summary.actual.at("memory_mib"), 10);
  EXPECT_GT(summary.actual.at("step_seconds"), 0);
  EXPECT_EQ(summary.actual.at("steps"), 2);
}

TEST(PlanCheckTest, WhatIsNotForetoldIsNotCompared) {
  const auto job = make_job(kJob);
  RecordedRun run;
  const PlanCheck check(Forecast{.parameters = 1, .flops = 5e9}, run.record());
  const auto line = check.look(*job, 1, 1, half_second());
  run.flush();
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->starts_with("6370 parameters, planned 1; a step ")) << *line;
  EXPECT_TRUE(line->ends_with(" GFLOP/s")) << *line;
  EXPECT_FALSE(read_run(run.dir()).actual.contains("memory_mib"));
}

TEST(PlanCheckTest, WithoutAForecastNothingIsSaidOrWritten) {
  const auto job = make_job(kJob);
  RecordedRun run;
  EXPECT_FALSE(PlanCheck(std::nullopt, run.record()).look(*job, 1, 1, half_second()));
  EXPECT_FALSE(PlanCheck().look(*job, 1, 1, half_second()));
  const Forecast some{.parameters = 1};
  EXPECT_FALSE(PlanCheck(some, run.record()).look(*job, 5, 0, half_second()));  // no step made
  run.flush();
  EXPECT_TRUE(read_run(run.dir()).actual.empty());
}

TEST(PlanCheckTest, TheRecordIsToldWhatIsForetold) {
  using Values = std::vector<Measurement>;
  EXPECT_EQ(PlanCheck::planned({.parameters = 7, .flops = 2}),
            (Values{{"parameters", 7}, {"flops", 2}}));
  EXPECT_EQ(PlanCheck::planned(
                {.parameters = 7, .memory = (3 << 20) / 2, .flops = 2, .step_seconds = 0.25}),
            (Values{{"parameters", 7}, {"flops", 2}, {"memory_mib", 1.5}, {"step_seconds", 0.25}}));
}

}  // namespace
}  // namespace accel::plan_check_test
