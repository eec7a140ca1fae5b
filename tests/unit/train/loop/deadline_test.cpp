#include "train/loop/deadline.h"

#include <gtest/gtest.h>

#include <ctime>

namespace accel::deadline_test {
namespace {

EnvironmentLookup job_only() {
  return [](const std::string& name) {
    return name == "SLURM_JOB_ID" ? std::optional<std::string>("7") : std::nullopt;
  };
}

TEST(DeadlineTest, ReadsTheEndOfTheJob) {
  const auto end = end_time_in(
      "JobId=7 JobName=a\n   StartTime=2026-11-24T20:00:00 "
      "EndTime=2026-11-24T23:59:01 Deadline=N/A\n");
  ASSERT_TRUE(end);
  const auto seconds = static_cast<std::time_t>(*end);
  const std::tm* local = std::localtime(&seconds);
  EXPECT_EQ(local->tm_mday, 24);
  EXPECT_EQ(local->tm_hour, 23);
  EXPECT_EQ(local->tm_sec, 1);
  EXPECT_FALSE(end_time_in("EndTime=Unknown Deadline=N/A"));
  EXPECT_FALSE(end_time_in("slurm_load_jobs error"));
}

TEST(DeadlineTest, OtherRanksDoNotAsk) {
  const SlurmEnd end = slurm_end(job_only(), false);
  EXPECT_FALSE(end.seconds);
  EXPECT_EQ(end.note, "");
}

}  // namespace
}  // namespace accel::deadline_test
