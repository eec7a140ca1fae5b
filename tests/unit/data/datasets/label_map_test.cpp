// Class labels and their numbers.
#include "data/datasets/label_map.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::label_map_test {
namespace {

TEST(LabelMapTest, IntegersAreTheirOwnNumbersInAnySpelling) {
  const LabelMap map = LabelMap::found({"0", "2", "2.0", " 3", "1e0"});
  EXPECT_TRUE(map.is_found());
  EXPECT_TRUE(map.names().empty());
  EXPECT_EQ(map.count(), 4);
  EXPECT_EQ(map.find("2"), 2);
  EXPECT_EQ(map.find("2.0"), 2);
  EXPECT_EQ(map.find(" 3"), 3);
  EXPECT_EQ(map.find("1e0"), 1);
  EXPECT_EQ(map.find("1"), std::nullopt);
}

TEST(LabelMapTest, OtherLabelsAreNumberedInOrder) {
  const LabelMap map = LabelMap::found({"10", "9", "x", "-1"});
  EXPECT_TRUE(map.is_found());
  EXPECT_EQ(map.names(), (std::vector<std::string>{"-1", "10", "9", "x"}));
  EXPECT_EQ(LabelMap::found({"01", "02", "10"}).names(),
            (std::vector<std::string>{"01", "02", "10"}));
  EXPECT_EQ(LabelMap::found({"0.5", "1"}).names(), (std::vector<std::string>{"0.5", "1"}));
  EXPECT_FALSE(LabelMap::given({"b", "a"}, "labels").is_found());
}

TEST(LabelMapTest, OneNumberInTwoSpellingsAmongOtherLabelsIsRefused) {
  EXPECT_EQ(complaint([] {
              LabelMap::found({"1", "1.0", "x"});
            }),
            "the labels '1' and '1.0' are one number in two spellings\n"
            "write it the same way in all rows, or list the texts in 'labels'");
  EXPECT_EQ(complaint([] {
              LabelMap::found({"-1", "-1.0"});
            }),
            "the labels '-1' and '-1.0' are one number in two spellings\n"
            "write it the same way in all rows, or list the texts in 'labels'");
}

}  // namespace
}  // namespace accel::label_map_test
