#include "runner/report/run_summary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace accel::record_line_test {
namespace {

using Kind = RecordLine::Kind;

TEST(RecordLineTest, StepIsReadWithAllItsNumbers) {
  const auto line = read_record_line(
      "{\"step\":7,\"epoch\":2,\"samples\":448,\"loss\":0.1,\"loss_bits\":\"3fb999999999999a\","
      "\"grad_norm\":1.5,\"lr\":3e-04,\"ids\":\"0000000000000abc\",\"skipped\":true}");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->kind, Kind::kStep);
  EXPECT_EQ(line->step, 7);
  EXPECT_EQ(line->epoch, 2);
  EXPECT_EQ(line->samples, 448);
  EXPECT_EQ(line->loss, 0.1);
  EXPECT_EQ(line->grad_norm, 1.5);
  EXPECT_EQ(line->lr, 3e-4);
  EXPECT_TRUE(line->skipped);
}

TEST(RecordLineTest, NullIsNotANumber) {
  const auto line =
      read_record_line("{\"step\":1,\"loss\":null,\"loss_bits\":\"7ff0000000000000\"}");
  ASSERT_TRUE(line);
  EXPECT_TRUE(std::isnan(line->loss));
  EXPECT_FALSE(line->grad_norm);
}

TEST(RecordLineTest, KindsTellThemselvesApart) {
  const std::pair<const char*, Kind> cases[] = {
      {"{\"step\":1,\"eval\":{\"eval/loss\":0.5}}", Kind::kEval},
      {"{\"step\":1,\"log\":{\"train/loss\":0.5}}", Kind::kLog},
      {"{\"step\":1,\"use\":{\"time/data\":0.5}}", Kind::kUse},
      {"{\"step\":1,\"plan\":{\"total_steps\":9}}", Kind::kPlan},
      {"{\"step\":1,\"actual\":{\"memory_mib\":9}}", Kind::kActual},
      {"{\"step\":1,\"about\":{\"device\":\"cpu\"}}", Kind::kAbout},
      {"{\"step\":1,\"event\":\"save\",\"text\":\"a\",\"time\":\"b\"}", Kind::kEvent},
      {"{\"step\":1,\"something\":\"new\"}", Kind::kOther},
  };
  for (const auto& [text, kind] : cases) {
    const auto line = read_record_line(text);
    ASSERT_TRUE(line) << text;
    EXPECT_EQ(line->kind, kind) << text;
  }
  const auto eval = read_record_line(cases[0].first);
  EXPECT_EQ(eval->values, (std::vector<Measurement>{{"eval/loss", 0.5}}));
  const auto event = read_record_line(cases[6].first);
  EXPECT_EQ(event->event + event->text + event->time, "saveab");
}

TEST(RecordLineTest, WhatNoRunWritesIsRefused) {
  const std::string deep = "{\"step\":1,\"a\":" + std::string(100000, '[');
  const std::string cases[] = {"",
                               "{\"step\":4,\"loss\":0.",
                               "nonsense",
                               "[1]",
                               "3",
                               "{}",
                               "{\"step\":-1}",
                               "{\"step\":\"1\"}",
                               "{\"step\":99999999999999999999}",
                               "{\"step\":1,\"log\":{\"a\":{}}}",
                               "{\"step\":1,\"log\":[1]}",
                               "{\"log\":{\"step\":1}}",
                               std::string("\0\0", 2),
                               deep};
  for (const std::string& text : cases) EXPECT_FALSE(read_record_line(text)) << text.substr(0, 60);
}

}  // namespace
}  // namespace accel::record_line_test
