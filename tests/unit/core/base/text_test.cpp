#include "core/base/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace accel::text_test {
namespace {

TEST(TextTest, EachPlaceholderTakesTheNextValue) {
  EXPECT_EQ(text("no values"), "no values");
  EXPECT_EQ(text("{}", "alone"), "alone");
  const std::string path = "a.csv";
  EXPECT_EQ(text("'{}' has {} rows, not {}", path, int64_t{-3}, size_t{7}),
            "'a.csv' has -3 rows, not 7");
}

TEST(TextTest, ValuesAreNotSearchedForPlaceholders) {
  EXPECT_EQ(text("{} and {}", "{}", "b"), "{} and b");
  EXPECT_EQ(text("model: {type: mlp} of '{}'", "x"), "model: {type: mlp} of 'x'");
}

TEST(TextTest, ListsAreJoinedAndQuoted) {
  const std::vector<std::string> none;
  const std::vector<std::string> two = {"a", "b"};
  EXPECT_EQ(joined(none), "");
  EXPECT_EQ(joined(two), "a, b");
  EXPECT_EQ(joined(std::vector<std::string>{"", "b"}, "/"), "/b");
  EXPECT_EQ(quoted_list(two), "'a', 'b'");
}

}  // namespace
}  // namespace accel::text_test
