#include "track/run_names.h"

#include <gtest/gtest.h>

namespace accel::run_names_test {
namespace {

TEST(RunNamesTest, NamesOfMetricsBecomePathsThatStayInTheirFolder) {
  EXPECT_EQ(safe_path("train/loss"), "train/loss");
  EXPECT_EQ(safe_path("/../etc//passwd/"), "__/etc/passwd");
  EXPECT_EQ(safe_path("a\nb\xff"), "a_b_");
  EXPECT_EQ(safe_path("gr\xc3\xb6\xc3\x9f"
                      "e"),
            "gr\xc3\xb6\xc3\x9f"
            "e");
  EXPECT_EQ(safe_path(""), "_");
  EXPECT_EQ(safe_path(std::string(500, 'x')).size(), 200u);
}

TEST(RunNamesTest, RandomNamesDiffer) {
  EXPECT_EQ(random_hex32().size(), 32u);
  EXPECT_NE(random_hex32(), random_hex32());
  EXPECT_EQ(random_name(3, "a"), "aaa");
}

}  // namespace
}  // namespace accel::run_names_test
