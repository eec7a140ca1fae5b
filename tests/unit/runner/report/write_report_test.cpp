#include "runner/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/runner/report/recorded_run.h"

namespace accel::write_report_test {
namespace {

namespace fs = std::filesystem;

TEST(WriteReportTest, OneRunsReportLiesInItsFolder) {
  RecordedRun run;
  run.train(10);
  run.flush();
  EXPECT_EQ(write_report({run.dir()}, ""), run.dir() + "/report.html");
  EXPECT_TRUE(file_content(run.dir() + "/report.html").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(write_report({run.dir()}, run.dir() + "/other.html"), run.dir() + "/other.html");
  EXPECT_EQ(file_content(run.dir() + "/other.html"), file_content(run.dir() + "/report.html"));
}

TEST(WriteReportTest, RunThatHasEndedIsNotCalledRunning) {
  RecordedRun run;
  run.record().event(0, "start", "");
  run.record().event(0, "end", "");
  run.flush();
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  run.write("run.lock", "process " + std::to_string(::getpid()) + " on host '" + host + "'\nboot " +
                            boot + "\n");
  write_own_report(run.dir());
  const std::string own = file_content(run.dir() + "/report.html");
  EXPECT_NE(own.find("<span class=\"badge finished\">"), own.npos);
  write_report({run.dir()}, "");
  const std::string others = file_content(run.dir() + "/report.html");
  EXPECT_NE(others.find("<span class=\"badge running\">"), others.npos);
}

TEST(WriteReportTest, SeveralRunsNeedAFile) {
  RecordedRun a("a"), b("b");
  EXPECT_EQ(complaint([&] {
              write_report({a.dir(), b.dir()}, "");
            }),
            "a report on several runs needs an output file\n"
            "give one: --output FILE.html");
  EXPECT_EQ(write_report({a.dir(), b.dir()}, a.dir() + "/both.html"), a.dir() + "/both.html");
}

TEST(WriteReportTest, FileThatCannotBeWrittenIsNamedAndNothingIsLeft) {
  RecordedRun run;
  EXPECT_EQ(complaint([&] { write_report({run.dir()}, run.dir() + "/no/folder.html"); }),
            "cannot write '" + run.dir() + "/no/folder.html': No such file or directory");
  fs::create_directories(run.dir() + "/taken.html/inside");
  EXPECT_EQ(complaint([&] { write_report({run.dir()}, run.dir() + "/taken.html"); }),
            "cannot write '" + run.dir() + "/taken.html': Is a directory");
  for (const auto& entry : fs::directory_iterator(run.dir())) {
    EXPECT_NE(entry.path().extension(), ".new");
  }
}

}  // namespace
}  // namespace accel::write_report_test
