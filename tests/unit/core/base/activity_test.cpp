#include "core/base/activity.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/base/console.h"
#include "core/base/log.h"

namespace accel::activity_test {
namespace {

/// Both streams are files while `work` runs.
std::pair<std::string, std::string> output_of(const std::function<void()>& work) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  work();
  std::string out = testing::internal::GetCapturedStdout();
  return {out, testing::internal::GetCapturedStderr()};
}

TEST(ActivityTest, AFileHasTheLinesOfTheLogOnly) {
  const auto [out, err] = output_of([] {
    Activity outer("opening the training data");
    Activity inner("tokenizing", "B");
    say("a line");
    for (int i = 0; i < 1000; ++i) inner.progress(i, 1000);
  });
  EXPECT_EQ(out, "a line\n");
  EXPECT_EQ(err, "");
}

TEST(ActivityTest, ShortTasksPrintNoPlainLine) {
  choose_progress(ProgressStyle::kLines);
  const auto [out, err] = output_of([] {
    Activity task("tokenizing", "B");
    task.progress(1, 2);
  });
  choose_progress(ProgressStyle::kAuto);
  EXPECT_EQ(out + err, "");
}

TEST(ActivityTest, VerboseOutputHasTheTimeOfEachTask) {
  choose_verbosity(Verbosity::kVerbose);
  const auto [out, err] = output_of([] { const Activity task("building the model"); });
  choose_verbosity(Verbosity::kNormal);
  EXPECT_TRUE(out.starts_with("  building the model: 0.")) << out;
  EXPECT_EQ(err, "");
}

TEST(ActivityTest, QuietOutputKeepsResultsAndWarnings) {
  choose_verbosity(Verbosity::kQuiet);
  const auto [out, err] = output_of([] {
    say("a line");
    say_title("a title");
    say_note("a note");
    say_result_title("done");
    say_result("best 0.5");
    warn("few samples");
  });
  choose_verbosity(Verbosity::kNormal);
  EXPECT_EQ(out, "done\nbest 0.5\n");
  EXPECT_EQ(err, "warning: few samples\n");
}

}  // namespace
}  // namespace accel::activity_test
