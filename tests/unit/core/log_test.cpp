// Lines for people also when the file they are copied to takes no more.
#include "core/log.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace accel {
namespace {

TEST(LogTest, AFullDiskUnderTheLogFileEndsTheLogAndNotTheRun) {
  log_to_file("/dev/full");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  say("one");
  say("two");
  close_log_file();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "one\ntwo\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: nothing more goes to the log file: Failed flush to file /dev/full: No space "
            "left on device\n");
}

}  // namespace
}  // namespace accel
