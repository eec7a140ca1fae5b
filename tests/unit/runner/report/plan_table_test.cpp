#include "runner/report/run_tables.h"

#include <gtest/gtest.h>

#include "runner/report/report.h"
#include "tests/unit/runner/report/recorded_run.h"

namespace accel::plan_table_test {
namespace {

using Lines = std::vector<std::string>;
using Values = std::vector<Measurement>;

const Values kPlan = {{"total_steps", 120},  {"batch", 8},     {"parameters", 12345},
                      {"memory_mib", 200.5}, {"flops", 3.2e9}, {"step_seconds", 0.04}};

TEST(PlanTableTest, BothNumbersAndTheirRatio) {
  RecordedRun run;
  run.record().plan(0, kPlan);
  run.record().actual(1, Values{{"parameters", 12345}, {"memory_mib", 180}, {"step_seconds", 9}});
  run.record().actual(
      120, Values{{"parameters", 12345}, {"memory_mib", 220.55}, {"step_seconds", 0.032}});
  run.flush();
  const RunSummary summary = read_run(run.dir());
  EXPECT_EQ(plan_table_lines(summary),
            (Lines{"                       planned  actual  actual / planned",
                   "parameters              12,345  12,345                 1",
                   "memory of rank 0, MiB    200.5   220.6               1.1",
                   "seconds per step          0.04   0.032               0.8",
                   "GFLOP per step             3.2",
                   "GFLOP per second            80     100              1.25"}));
  const std::string page = run_page(summary);
  EXPECT_NE(page.find("<h2>Planned and actual</h2>"), page.npos);
  EXPECT_NE(page.find("<tr><th>memory of rank 0, MiB</th><td data-column=\"planned\">200.5</td>"
                      "<td data-column=\"actual\" title=\"220.55\">220.6</td>"
                      "<td data-column=\"actual / planned\">1.1</td></tr>"),
            page.npos)
      << page;
}

TEST(PlanTableTest, WhatIsNotForetoldHasNoRatio) {
  RecordedRun run;
  run.record().plan(0, Values{{"parameters", 10}, {"flops", 0}});
  run.record().actual(1, Values{{"parameters", 10}, {"step_seconds", 0.5}});
  run.flush();
  EXPECT_EQ(plan_table_lines(read_run(run.dir())),
            (Lines{"                  planned  actual  actual / planned",
                   "parameters             10      10                 1",
                   "seconds per step              0.5"}));
}

TEST(PlanTableTest, AProcessIsComparedWithItsOwnPlan) {
  RecordedRun run;
  run.record().plan(0, kPlan);
  run.record().actual(9, Values{{"parameters", 12345}, {"memory_mib", 999}});
  run.record().plan(9, kPlan);
  run.flush();
  const Lines lines = plan_table_lines(read_run(run.dir()));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], "memory of rank 0, MiB    200.5");
}

TEST(PlanTableTest, ARunWithoutForecastHasNoTable) {
  RecordedRun run;
  run.record().plan(0, Values{{"total_steps", 120}, {"batch", 8}});
  run.flush();
  const RunSummary summary = read_run(run.dir());
  EXPECT_EQ(plan_table_lines(summary), Lines());
  EXPECT_EQ(plan_table(summary), "");
}

}  // namespace
}  // namespace accel::plan_table_test
