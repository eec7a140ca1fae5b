#include "train/loop/progress_hook.h"

#include <gtest/gtest.h>

namespace accel::step_rate_test {
namespace {

TEST(StepRateTest, TheFirstStepCountsOnlyWhileItIsTheOnlyOne) {
  StepRate rate;
  EXPECT_EQ(rate.seconds_per_step(), 0);
  rate.add(30);
  EXPECT_EQ(rate.seconds_per_step(), 30);
  rate.add(2);
  EXPECT_EQ(rate.seconds_per_step(), 2);
}

TEST(StepRateTest, SingleSlowStepsDoNotChangeIt) {
  StepRate rate;
  for (int i = 0; i < 40; ++i) rate.add(i % 20 == 10 ? 1000 : 1);
  EXPECT_EQ(rate.seconds_per_step(), 1);
}

TEST(StepRateTest, ALastingChangeReplacesTheOldRate) {
  StepRate rate;
  for (int i = 0; i < 1000; ++i) rate.add(1);
  for (size_t i = 0; i < StepRate::kMostSteps; ++i) rate.add(3);
  EXPECT_EQ(rate.seconds_per_step(), 3);
}

}  // namespace
}  // namespace accel::step_rate_test
