#include "core/recipe/run_name.h"

#include <gtest/gtest.h>

#include <set>

namespace accel::run_name_test {
namespace {

TEST(RunNameTest, APlainStemIsTheName) {
  for (const char* stem : {"job", "Job", "a.b-c_1", ".hidden", "-x"}) {
    EXPECT_EQ(run_name_of(stem, kLongestRunName), stem);
  }
}

TEST(RunNameTest, OtherStemsGetNamesOfTheirOwn) {
  EXPECT_EQ(run_name_of("a b", kLongestRunName), "a_b-c8687a08");
  const std::string stems[] = {"a b",
                               "a  b",
                               "a_b",
                               "c d",
                               "a\tb",
                               "a+b",
                               "modèle",
                               "modéle",
                               "日本",
                               "日木",
                               "",
                               ".",
                               "..",
                               "~",
                               std::string(65, 'x'),
                               std::string(66, 'x'),
                               std::string(300, ' ')};
  std::set<std::string> names;
  for (const std::string& stem : stems) {
    const std::string name = run_name_of(stem, kLongestRunName);
    EXPECT_TRUE(is_plain_name(name, kLongestRunName)) << name;
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(names.insert(name).second) << stem << " and another are " << name;
    EXPECT_EQ(run_name_of(name, kLongestRunName), name);
  }
}

TEST(RunNameTest, ALongNameHasRoomForANumber) {
  EXPECT_EQ(run_name_of(std::string(100, 'x'), 48).size(), 44u);
}

}  // namespace
}  // namespace accel::run_name_test
