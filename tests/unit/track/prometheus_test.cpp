#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/run_in.h"
#include "track/values.h"

namespace accel::prometheus_test {
namespace {

using Values = std::vector<Measurement>;

TEST(PrometheusTrackerTest, TheFileHasTheNewestValueOfEachMetric) {
  TempFolder folder;
  const TrackerContext context = run_in(folder.path());
  const auto tracker = build<Tracker>("prometheus", context);
  tracker->log(10, Values{{"train/loss", 0.5}, {"eval/top-5", 1}});
  tracker->log(20, Values{{"train/loss", 0.25}});
  tracker->flush(Flush::kReadable);
  const std::string label = "{run=\"" + context.run_name + "\"} ";
  EXPECT_EQ(file_content(folder.path("metrics.prom")),
            "# TYPE accel_run_eval_top_5 gauge\naccel_run_eval_top_5" + label +
                "1\n# TYPE accel_run_step gauge\naccel_run_step" + label +
                "20\n# TYPE accel_run_train_loss gauge\naccel_run_train_loss" + label + "0.25\n");
}

TEST(PrometheusTrackerTest, MetricsOfOneNameHaveTheirOwnAsALabel) {
  TempFolder folder;
  const TrackerContext context = run_in(folder.path());
  const auto tracker = build<Tracker>("prometheus", context);
  tracker->log(1, Values{{"f1_x,y", 0.5}, {"f1_x=y", 1}});
  tracker->flush(Flush::kReadable);
  const std::string start = "accel_run_f1_x_y{run=\"" + context.run_name + "\",name=\"";
  const std::string found = file_content(folder.path("metrics.prom"));
  EXPECT_TRUE(found.starts_with("# TYPE accel_run_f1_x_y gauge\n" + start + "f1_x,y\"} 0.5\n" +
                                start + "f1_x=y\"} 1\n# TYPE accel_run_step"))
      << found;
}

TEST(PrometheusTrackerTest, TheEndAndValuesThatAreNoNumbersAreWritten) {
  TempFolder folder;
  const TrackerContext context = run_in(folder.path());
  const auto tracker = build<Tracker>("prometheus", context);
  tracker->log(1, Values{{"a", std::numeric_limits<double>::quiet_NaN()},
                         {"b", std::numeric_limits<double>::infinity()}});
  tracker->finish(RunStatus::kFailed);
  const std::string found = file_content(folder.path("metrics.prom"));
  EXPECT_NE(found.find("} NaN\n"), std::string::npos) << found;
  EXPECT_NE(found.find("} +Inf\n"), std::string::npos) << found;
  EXPECT_NE(found.find("accel_run_failed{run=\"" + context.run_name + "\"} 1\n"), std::string::npos)
      << found;
}

}  // namespace
}  // namespace accel::prometheus_test
