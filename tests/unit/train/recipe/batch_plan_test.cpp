#include <gtest/gtest.h>

#include "core/base/error.h"
#include "train/job/job.h"

namespace accel::batch_plan_test {
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

TEST(BatchPlanTest, RanksShareTheBatch) {
  const BatchPlan whole = plan_batches(section(32, {}, {}), 4);
  EXPECT_EQ(whole.micro_batch, 8);
  EXPECT_EQ(whole.accumulation, 1);
  EXPECT_EQ(plan_batches(section(32, 8, {}), 2).accumulation, 2);
  EXPECT_EQ(plan_batches(section(32, {}, 2), 4).micro_batch, 4);
  EXPECT_EQ(plan_batches(section(32, 4, 2), 4).world, 4);
}

std::string complaint(const TrainSection& train, int64_t world) {
  try {
    plan_batches(train, world);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(BatchPlanTest, WhatCannotBeSharedIsRefused) {
  EXPECT_EQ(complaint(section(32, {}, {}), 3), "batch 32 cannot be shared by 3 ranks");
  EXPECT_EQ(complaint(section(32, 8, {}), 8),
            "batch 32 cannot be shared by 8 ranks of micro_batch 8");
  EXPECT_EQ(complaint(section(30, {}, 4), 2),
            "batch 30 cannot be shared by 2 ranks with 4 accumulated");
  EXPECT_EQ(complaint(section(12, 3, 2), 1), "batch 12 is not 3 micro x 2 accumulated x 1 rank");
}

}  // namespace
}  // namespace accel::batch_plan_test
