// Digits as pen strokes.
#pragma once

#include <cstdint>
#include <vector>

namespace accel {

/// In the unit square; (0, 0) is the top left.
struct Point {
  double x = 0;
  double y = 0;
};

/// Control points of straight lines, of a smooth curve, or of a closed curve.
struct Stroke {
  enum class Path { kLines, kCurve, kLoop };

  Path path = Path::kLines;
  std::vector<Point> points;
};

/// One shape of a digit.
using Glyph = std::vector<Stroke>;

/// The shapes of `digit`, 0 to 9.
const std::vector<Glyph>& glyphs_of(int64_t digit);

/// The stroke as a polyline.
std::vector<Point> outline(const Stroke& stroke);

}  // namespace accel
