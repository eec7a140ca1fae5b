#include "runner/report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace accel::curve_test {
namespace {

TEST(CurveTest, FewValuesAreKeptAsTheyAre) {
  Curve curve;
  for (int64_t step = 1; step <= 800; ++step) curve.add(step, static_cast<double>(step) / 2);
  ASSERT_EQ(curve.pieces().size(), Curve::kMostPieces);
  EXPECT_EQ(curve.per_piece(), 1);
  EXPECT_EQ(curve.pieces()[9].last, 5);
  EXPECT_EQ(curve.first_step(), 1);
  EXPECT_EQ(curve.last_step(), 800);
  EXPECT_EQ(curve.low(), 0.5);
  EXPECT_EQ(curve.high(), 400);
  EXPECT_EQ(curve.last(), 400);
}

TEST(CurveTest, ManyValuesTakeNoMoreRoomAndKeepEverySpike) {
  Curve curve;
  constexpr int64_t kSteps = 100000;
  for (int64_t step = 1; step <= kSteps; ++step) {
    curve.add(step, step == 31337 ? 1e6 : step == 77777 ? -5.0 : 1.0);
  }
  EXPECT_LE(curve.pieces().size(), Curve::kMostPieces);
  EXPECT_GE(curve.pieces().size(), Curve::kMostPieces / 2);
  EXPECT_EQ(curve.per_piece(), 128);
  EXPECT_EQ(curve.high(), 1e6);
  EXPECT_EQ(curve.low(), -5);
  int64_t count = 0, highest_at = 0, lowest_at = 0;
  double sum = 0;
  for (const CurvePiece& piece : curve.pieces()) {
    count += piece.count;
    sum += piece.sum;
    if (piece.high == 1e6) highest_at = piece.high_step;
    if (piece.low == -5) lowest_at = piece.low_step;
  }
  EXPECT_EQ(count, kSteps);
  EXPECT_EQ(sum, kSteps - 2 + 1e6 - 5);
  EXPECT_EQ(highest_at, 31337);
  EXPECT_EQ(lowest_at, 77777);
}

TEST(CurveTest, ValuesThatAreNotFiniteAreOnlyCounted) {
  Curve curve;
  curve.add(1, 2.0);
  curve.add(2, std::nan(""));
  curve.add(3, std::numeric_limits<double>::infinity());
  EXPECT_EQ(curve.pieces().size(), 1u);
  EXPECT_EQ(curve.not_finite(), 2);
  EXPECT_EQ(curve.first_not_finite(), 2);
}

}  // namespace
}  // namespace accel::curve_test
