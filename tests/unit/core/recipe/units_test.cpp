#include "core/recipe/units.h"

#include <gtest/gtest.h>

namespace accel::units_test {
namespace {

TEST(UnitsTest, DurationsAreShownAsARecipeWritesThem) {
  using Unit = Duration::Unit;
  EXPECT_EQ(to_string(Duration{1, Unit::kSteps}), "1 step");
  EXPECT_EQ(to_string(Duration{500, Unit::kSteps}), "500 steps");
  EXPECT_EQ(to_string(Duration{0.25, Unit::kEpochs}), "0.25 epochs");
  EXPECT_EQ(to_string(Duration{7200, Unit::kSeconds}), "2 h");
  EXPECT_EQ(to_string(Duration{5400, Unit::kSeconds}), "90 min");
  EXPECT_EQ(to_string(Duration{0.5, Unit::kSeconds}), "0.5 s");
  EXPECT_EQ(to_string(Duration{0, Unit::kSeconds}), "0 s");
  EXPECT_EQ(to_string(Duration{6, Unit::kPercent}), "6%");
  EXPECT_EQ(to_string(Duration{2e9, Unit::kTokens}), "2000000000 tokens");
  EXPECT_EQ(to_string(Duration{3, Unit::kSamples}), "3 samples");
}

TEST(UnitsTest, ByteSizesAreShownInABinaryUnitWhenExact) {
  EXPECT_EQ(to_string(ByteSize{0}), "0");
  EXPECT_EQ(to_string(ByteSize{4096}), "4 KiB");
  EXPECT_EQ(to_string(ByteSize{int64_t{4} << 30}), "4 GiB");
  EXPECT_EQ(to_string(ByteSize{10'000'000}), "10000000");
}

}  // namespace
}  // namespace accel::units_test
