#include <gtest/gtest.h>

#include "runner/job/job.h"

namespace accel {
namespace {

TrainSection section(int64_t batch, std::optional<int64_t> micro, std::optional<int64_t> steps) {
  TrainSection train;
  train.batch = batch;
  train.micro_batch.value = micro;
  train.gradient_accumulation_steps.value = steps;
  return train;
}

TEST(BatchPlanTest, WhatIsNotGivenFollows) {
  const BatchPlan whole = plan_batches(section(32, {}, {}));
  EXPECT_EQ(whole.micro_batch, 32);
  EXPECT_EQ(whole.accumulation, 1);
  const BatchPlan by_micro = plan_batches(section(32, 8, {}));
  EXPECT_EQ(by_micro.accumulation, 4);
  const BatchPlan by_steps = plan_batches(section(32, {}, 2));
  EXPECT_EQ(by_steps.micro_batch, 16);
  EXPECT_EQ(by_steps.accumulation, 2);
}

}  // namespace
}  // namespace accel
