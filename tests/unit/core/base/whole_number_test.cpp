#include "core/base/whole_number.h"

#include <gtest/gtest.h>

#include <limits>

namespace accel::whole_number_test {
namespace {

using nlohmann::json;

TEST(WholeNumber, IsOneThatItsTypeHolds) {
  EXPECT_EQ(whole_number<int64_t>(json::parse("7")), 7);
  EXPECT_EQ(whole_number<int64_t>(json::parse("-7")), -7);
  EXPECT_EQ(whole_number<uint8_t>(json::parse("255")), 255);
  EXPECT_EQ(whole_number<int64_t>(json::parse("9223372036854775807")),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(whole_number<int64_t>(json::parse("-9223372036854775808")),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(whole_number<uint64_t>(json::parse("18446744073709551615")),
            std::numeric_limits<uint64_t>::max());
}

TEST(WholeNumber, IsNothingElse) {
  for (const char* text : {"256", "-1", "1e30", "2.0", "1.5", "1e400", "null", "true", "\"7\"",
                           "[7]", "18446744073709551616"}) {
    // nlohmann refuses 1e400 itself.
    const json value = json::parse(text, nullptr, false);
    EXPECT_EQ(whole_number<uint8_t>(value), std::nullopt) << text;
  }
  EXPECT_EQ(whole_number<int64_t>(json::parse("9223372036854775808")), std::nullopt);
  EXPECT_EQ(whole_number<int64_t>(json::parse("-9223372036854775809")), std::nullopt);
}

}  // namespace
}  // namespace accel::whole_number_test
