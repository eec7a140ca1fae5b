#include "core/base/metric_names.h"

#include <gtest/gtest.h>

namespace accel::metric_names_test {
namespace {

TEST(MetricNamesTest, LossesAndErrorsAreBetterWhenLower) {
  for (const char* name : {"eval/loss", "perplexity", "eval/rmse", "eval/a/mae", "train/error"}) {
    EXPECT_TRUE(lower_is_better(name)) << name;
  }
  for (const char* name : {"eval/accuracy", "train/samples_per_second", "loss/accuracy", ""}) {
    EXPECT_FALSE(lower_is_better(name)) << name;
  }
}

TEST(MetricNamesTest, KnownNamesHaveTitles) {
  EXPECT_EQ(metric_title("train/lr"), "Learning rate");
  EXPECT_EQ(metric_title("train/samples_per_second"), "Samples per second");
  EXPECT_EQ(metric_title("eval/macro_f1"), "Eval macro f1");
  EXPECT_EQ(metric_title("train/entropy"), "Training entropy");
  EXPECT_EQ(metric_title("data/share_1"), "data/share_1");
}

}  // namespace
}  // namespace accel::metric_names_test
