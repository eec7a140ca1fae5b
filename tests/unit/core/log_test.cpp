// Lines for people also when the file they are copied to takes no more.
#include "core/log.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/warning_format.h"
#include "tests/unit/formats/temp_folder.h"

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

TEST(LogTest, WarningsAreJsonForPrograms) {
  const TempFolder folder;
  log_to_file(folder.path("log"));
  testing::internal::CaptureStderr();
  warn_as_json();
  warn("a \"quote\"");
  warn_as_json(false);
  warn("a text");
  close_log_file();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "{\"severity\": \"warning\", \"message\": \"a \\\"quote\\\"\"}\n"
            "warning: a text\n");
  std::ifstream log(folder.path("log"));
  std::string line;
  std::getline(log, line);
  EXPECT_TRUE(line.ends_with(" a \"quote\"")) << line;
}

}  // namespace
}  // namespace accel
