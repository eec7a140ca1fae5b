#include "data/datasets/label_lists.h"

#include <gtest/gtest.h>

namespace accel::label_lists_test {
namespace {

using Labels = std::vector<std::string>;

TEST(LabelListsTest, ListsOfJsonOfPythonAndBetweenCommas) {
  EXPECT_EQ(labels_in(R"(["a", "b c"])"), (Labels{"a", "b c"}));
  EXPECT_EQ(labels_in("['a', 'b c']"), (Labels{"a", "b c"}));
  EXPECT_EQ(labels_in("[2, 0]"), (Labels{"2", "0"}));
  EXPECT_EQ(labels_in(" a, b c ,d"), (Labels{"a", "b c", "d"}));
  EXPECT_EQ(labels_in("a"), Labels{"a"});
  EXPECT_EQ(labels_in("[]"), Labels{});
  EXPECT_EQ(labels_in(" "), Labels{});
}

TEST(LabelListsTest, OtherListsAreNone) {
  EXPECT_EQ(labels_in("[0.5]"), std::nullopt);
  EXPECT_EQ(labels_in("[[1]]"), std::nullopt);
  EXPECT_EQ(labels_in("[a]"), std::nullopt);
  EXPECT_EQ(labels_in("a,,b"), std::nullopt);
  EXPECT_EQ(labels_in("[1, 0, 0]"), std::nullopt) << "a 0 or 1 for each of three labels";
  EXPECT_EQ(labels_in("a,b,a"), std::nullopt);
}

TEST(LabelListsTest, NumbersAloneOrInAList) {
  EXPECT_EQ(numbers_in("0.5"), std::vector<float>{0.5f});
  EXPECT_EQ(numbers_in("[1, -2.5, true]"), (std::vector<float>{1, -2.5f, 1}));
  EXPECT_EQ(numbers_in("[1, null]"), std::nullopt);
  EXPECT_EQ(numbers_in("x"), std::nullopt);
}

TEST(LabelListsTest, FlagsAreZeroOrOne) {
  EXPECT_EQ(label_flag("1.0"), 1);
  EXPECT_EQ(label_flag("false"), 0);
  EXPECT_EQ(label_flag("0.5"), std::nullopt);
  EXPECT_EQ(label_flag(""), std::nullopt);
}

}  // namespace
}  // namespace accel::label_lists_test
