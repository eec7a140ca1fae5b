#include "core/base/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace accel::json_text_test {
namespace {

TEST(JsonTextTest, EscapesWhatJsonCannotHold) {
  EXPECT_EQ(json_text("a\"b\\c\nd\te\x01"), "\"a\\\"b\\\\c\\nd\\u0009e\\u0001\"");
}

TEST(JsonTextTest, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(json_text("\xc3\xa9\xff\xc3"), "\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(JsonNumberTest, IsTheShortestThatReadsBack) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(-0.0), "-0");
  EXPECT_EQ(json_number(1e22), "1e+22");
  EXPECT_EQ(json_number(5e-324), "5e-324");
}

TEST(JsonNumberTest, IsNullForWhatJsonCannotHold) {
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
}

}  // namespace
}  // namespace accel::json_text_test
