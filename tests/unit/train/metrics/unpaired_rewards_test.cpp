// Rewards of answers with a label.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <map>

#include "core/api/metric.h"
#include "core/api/sequence_pairs.h"
#include "tests/unit/build_component.h"

namespace accel::unpaired_rewards_test {
namespace {

TEST(UnpairedRewardsTest, MeansAreOfTheAnswersOfALabel) {
  const auto metric = build<Metric>("unpaired_rewards");
  const at::Tensor rows = at::tensor({1.F, -4.F, 1.F, 0.5F, 3.F, -6.F, 1.F, 0.5F,  //
                                      -2.F, -8.F, 0.F, 0.5F})
                              .view({3, kLabelledColumns});
  metric->update({rows, Batch(), 0, 3});
  const auto values = metric->values();
  const std::map<std::string, double> found(values.begin(), values.end());
  const std::map<std::string, double> wanted = {
      {"kl", 0.5},           {"logps/chosen", -5},   {"logps/rejected", -8},
      {"rewards/chosen", 2}, {"rewards/margins", 4}, {"rewards/rejected", -2}};
  EXPECT_EQ(found, wanted);
}

}  // namespace
}  // namespace accel::unpaired_rewards_test
