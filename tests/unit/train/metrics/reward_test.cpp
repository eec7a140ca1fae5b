// Mean reward over prompts.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/metric.h"
#include "tests/unit/build_component.h"

namespace accel::reward_metric_test {
namespace {

TEST(RewardMetricTest, IsTheMeanOfThePromptsWithAReward) {
  const auto metric = build<Metric>("reward");
  EXPECT_EQ(metric->values()[0].second, 0);
  const at::Tensor output =
      at::tensor(std::vector<double>{0.5, 9, NAN, 9, 1.5, 9}, at::kDouble).view({3, 2});
  const Batch batch;
  metric->update({output, batch, 0, 3});
  EXPECT_EQ(metric->values()[0].first, "reward");
  EXPECT_EQ(metric->values()[0].second, 1);
}

}  // namespace
}  // namespace accel::reward_metric_test
