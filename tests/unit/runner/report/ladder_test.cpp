#include "runner/report/chart.h"

#include <gtest/gtest.h>

#include <limits>

namespace accel::ladder_test {
namespace {

using Rungs = std::vector<double>;

TEST(LadderTest, RungsAreRoundAndWithinBounds) {
  EXPECT_EQ(ladder(0, 100, 5), (Rungs{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(ladder(1, 24, 5), (Rungs{5, 10, 15, 20}));
  EXPECT_EQ(ladder(-1, 1, 4), (Rungs{-1, -0.5, 0, 0.5, 1}));
}

TEST(LadderTest, NoRungsWithoutASpan) {
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_EQ(ladder(1, 1, 5), Rungs{});
  EXPECT_EQ(ladder(2, 1, 5), Rungs{});
  EXPECT_EQ(ladder(-kMost, kMost, 5), Rungs{});
}

TEST(LadderTest, PowersOfTenWhereThereAreSome) {
  EXPECT_EQ(power_ladder(0.5, 2000), (Rungs{1, 10, 100, 1000}));
  EXPECT_EQ(power_ladder(2, 60), (Rungs{2, 5, 10, 20, 50}));
  EXPECT_EQ(power_ladder(0, 1), Rungs{});
}

}  // namespace
}  // namespace accel::ladder_test
