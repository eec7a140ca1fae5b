#include "train/loop/trigger.h"

#include <gtest/gtest.h>

namespace accel::trigger_test {
namespace {

ScheduleContext run_of(int64_t total, int64_t per_epoch) {
  ScheduleContext run;
  run.total_steps = total;
  run.steps_per_epoch = per_epoch;
  return run;
}

std::vector<int64_t> due_steps(const Durations& every, const ScheduleContext& run) {
  Trigger trigger(every, run);
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= run.total_steps; ++step) {
    if (trigger.due(step, 0)) steps.push_back(step);
  }
  return steps;
}

TEST(TriggerTest, TheRemainingTimesAreCounted) {
  const ScheduleContext run = run_of(1000, 4);
  EXPECT_EQ(Trigger({{5, Duration::Unit::kSteps}}, run).times(0, 11, 0), 2);
  EXPECT_EQ(Trigger({{5, Duration::Unit::kSteps}}, run).times(10, 14, 0), 0);
  EXPECT_EQ(Trigger({{5, Duration::Unit::kSteps}}, run).times(9, 10, 0), 1);
  EXPECT_EQ(Trigger({{60, Duration::Unit::kSeconds}}, run).times(9, 10, 90), 1.5);
}

TEST(TriggerTest, StepsEpochsAndSharesCountOptimizerSteps) {
  const ScheduleContext run = run_of(12, 4);
  EXPECT_EQ(due_steps({{5, Duration::Unit::kSteps}}, run), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(due_steps({{1, Duration::Unit::kEpochs}}, run), (std::vector<int64_t>{4, 8, 12}));
  EXPECT_EQ(due_steps({{50, Duration::Unit::kPercent}}, run), (std::vector<int64_t>{6, 12}));
}

/// As in transformers.
TEST(TriggerTest, PartsOfStepsAreRoundedUp) {
  EXPECT_EQ(due_steps({{30, Duration::Unit::kPercent}}, run_of(11, 4)),
            (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(due_steps({{0.8, Duration::Unit::kEpochs}}, run_of(11, 4)),
            (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(run_of(11, 4).steps({2.25, Duration::Unit::kEpochs}), 9);
  EXPECT_EQ(run_of(11, 5).steps({2.25, Duration::Unit::kEpochs}), 12);
}

TEST(TriggerTest, OfSeveralTheFirstCounts) {
  EXPECT_EQ(due_steps({{6, Duration::Unit::kSteps}, {1, Duration::Unit::kEpochs}}, run_of(12, 4)),
            (std::vector<int64_t>{4, 6, 8, 12}));
}

TEST(TriggerTest, NothingIsDueNever) {
  EXPECT_TRUE(due_steps({}, run_of(12, 4)).empty());
}

TEST(TriggerTest, LessThanAStepIsEveryStep) {
  EXPECT_EQ(due_steps({{0.1, Duration::Unit::kEpochs}}, run_of(3, 4)).size(), 3u);
}

TEST(TriggerTest, TimeIsDueOncePerPeriod) {
  Trigger trigger({{10, Duration::Unit::kSeconds}}, run_of(0, 4));
  EXPECT_FALSE(trigger.due(1, 9.9));
  EXPECT_TRUE(trigger.due(2, 10.1));
  EXPECT_FALSE(trigger.due(3, 20.0));
  EXPECT_TRUE(trigger.due(4, 20.2));
}

}  // namespace
}  // namespace accel::trigger_test
