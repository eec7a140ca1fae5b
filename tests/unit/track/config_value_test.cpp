#include "track/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace accel::config_value_test {
namespace {

TEST(ConfigValueTest, OptionsHaveTheTypesTheyRead) {
  EXPECT_EQ(config_value("true"), ConfigValue(true));
  EXPECT_EQ(config_value("1e-3"), ConfigValue(0.001));
  EXPECT_EQ(config_value("3 epochs"), ConfigValue(std::string("3 epochs")));
  EXPECT_EQ(config_value("inf"), ConfigValue(std::string("inf")));
  EXPECT_EQ(config_value(""), ConfigValue(std::string()));
}

TEST(ConfigValueTest, JsonKeepsTheTypes) {
  EXPECT_EQ(config_json("false"), "false");
  EXPECT_EQ(config_json("0.5"), "0.5");
  EXPECT_EQ(config_json("a\"b"), "\"a\\\"b\"");
}

TEST(ConfigValueTest, NumbersThatAreNotFiniteAreWhatPythonWrites) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(python_json(std::nan("")), "NaN");
  EXPECT_EQ(python_json(kInfinity), "Infinity");
  EXPECT_EQ(python_json(-kInfinity), "-Infinity");
  EXPECT_EQ(python_json(0.1), "0.1");
}

}  // namespace
}  // namespace accel::config_value_test
