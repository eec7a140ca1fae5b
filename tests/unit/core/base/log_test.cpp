// Lines for people also when the file they are copied to takes no more.
#include "core/base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/base/console.h"
#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::log_test {
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
            "warning: the log file is closed after a failed write: Failed flush to file /dev/full: "
            "No space "
            "left on device\n");
}

TEST(LogTest, ALogFileThatCannotBeOpenedIsAnError) {
  const TempFolder folder;
  const std::string path = folder.path("run.log");
  std::filesystem::create_directory(path);
  try {
    log_to_file(path);
    FAIL() << "a folder is no log file";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), "cannot open the log file '" + path + "': Failed opening file " + path +
                                " for writing: Is a directory");
  }
}

TEST(LogTest, AQuietTerminalShowsWarningsOnlyAndTheFileHasAll) {
  const TempFolder folder;
  log_to_file(folder.path("log"));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  be_quiet();
  say("one");
  warn("two");
  be_quiet(false);
  say("three");
  close_log_file();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "three\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: two\n");
  std::ifstream log(folder.path("log"));
  const std::string all((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 3) << all;
}

TEST(LogTest, WarningsAreJsonForPrograms) {
  const TempFolder folder;
  log_to_file(folder.path("log"));
  testing::internal::CaptureStderr();
  warn_as_json();
  warn("a \"quote\"");
  print_warning("laid out\n  by itself\n", "{}\n");
  warn_as_json(false);
  warn("a text");
  print_warning("laid out\n  by itself\n", "{}\n");
  close_log_file();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "{\"severity\": \"warning\", \"message\": \"a \\\"quote\\\"\"}\n"
            "{}\n"
            "warning: a text\n"
            "laid out\n  by itself\n");
  std::ifstream log(folder.path("log"));
  std::string line;
  std::getline(log, line);
  EXPECT_TRUE(line.ends_with(" a \"quote\"")) << line;
}

}  // namespace
}  // namespace accel::log_test
