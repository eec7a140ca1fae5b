#include "core/base/progress_text.h"

#include <gtest/gtest.h>

#include "core/base/terminal.h"

namespace accel::progress_text_test {
namespace {

TaskProgress training() {
  return {.done = 820,
          .total = 2000,
          .detail = "loss 0.412",
          .rates = {"12.3 steps/s", "787 samples/s"},
          .elapsed = 67,
          .left = 97};
}

std::string ascii(const TaskProgress& task, int columns) {
  return progress_line(task, columns, false).text;
}

TEST(ProgressTextTest, AllFieldsAreShownWhereTheyFit) {
  EXPECT_EQ(
      ascii(training(), 120),
      " 41 % [###########.................]  820/2,000  loss 0.412  12.3 steps/s  787 samples/s"
      "  1:07, 1:37 left");
}

TEST(ProgressTextTest, TheLeastImportantFieldsAreLeftOutOfNarrowLines) {
  EXPECT_EQ(ascii(training(), 79),
            " 41 % [######...........]  820/2,000  loss 0.412  12.3 steps/s  1:07, 1:37 left");
  EXPECT_EQ(ascii(training(), 60), " 41 % [#######...........]  820/2,000  loss 0.412  1:37 left");
  EXPECT_EQ(ascii(training(), 40), " 41 %  820/2,000  loss 0.412  1:37 left");
  EXPECT_EQ(ascii(training(), 30), " 41 %  820/2,000  1:37 left");
  EXPECT_EQ(ascii(training(), 12), " 41 %  820/2");
}

TEST(ProgressTextTest, NoLineIsWiderThanTheTerminal) {
  TaskProgress task = training();
  task.what = "tokenizing";
  for (const bool unicode : {false, true}) {
    for (int columns = 1; columns < 150; ++columns) {
      EXPECT_LE(columns_of(progress_line(task, columns, unicode).text), columns);
    }
  }
}

TEST(ProgressTextTest, BlocksOfUnicodeShowEighths) {
  TaskProgress task{.done = 1, .total = 16};
  const ProgressLine line = progress_line(task, 25, true);
  EXPECT_EQ(line.text, "  6 % ▕▋          ▏  1/16");
  EXPECT_EQ(line.text.substr(line.bar, line.bar_bytes), "▕▋          ▏");
}

TEST(ProgressTextTest, ATaskWithoutATotalHasNoBar) {
  EXPECT_EQ(ascii({.what = "opening the training data"}, 79), "opening the training data");
  EXPECT_EQ(ascii({.done = 12345, .unit = "steps", .detail = "loss 1", .elapsed = 3}, 79),
            "12,345 steps  loss 1  0:03");
}

TEST(ProgressTextTest, BytesHaveUnits) {
  EXPECT_EQ(plain_progress({.what = "downloading a.bin",
                            .done = 12'345'678,
                            .total = 2'000'000'000,
                            .unit = "B",
                            .rates = {rate_text(999'600, "B")},
                            .elapsed = 12,
                            .left = 3700}),
            "downloading a.bin   0 %  12.3 MB/2.0 GB  1.0 MB/s  0:12, 1:01:40 left");
  EXPECT_EQ(plain_progress({.done = 999, .unit = "B"}), "999 B");
}

TEST(ProgressTextTest, SlowRatesAreTimesPerUnit) {
  EXPECT_EQ(rate_text(12.345, "step"), "12.3 steps/s");
  EXPECT_EQ(rate_text(12345, "token"), "12,345 tokens/s");
  EXPECT_EQ(rate_text(0.4, "step"), "2.5 s/step");
  EXPECT_EQ(rate_text(0, "step"), "");
}

TEST(ProgressTextTest, TimesReadAsClocks) {
  EXPECT_EQ(clock_text(5), "0:05");
  EXPECT_EQ(clock_text(3723.9), "1:02:03");
  EXPECT_EQ(clock_text(-1), "0:00");
}

TEST(ProgressTextTest, DigitsAreGroupedByThousands) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(1234567), "1,234,567");
  EXPECT_EQ(grouped_digits(-123456), "-123,456");
}

}  // namespace
}  // namespace accel::progress_text_test
