// The digits as pen strokes.
#pragma once

#include <cstdint>
#include <vector>

namespace accel {

/// In a box from (0, 0), top left, to (1, 1).
struct Point {
  double x = 0;
  double y = 0;
};

/// Points that the pen passes through: along straight lines, along one smooth curve, or around one
/// that ends where it began.
struct Stroke {
  enum class Path { kLines, kCurve, kLoop };

  Path path = Path::kLines;
  std::vector<Point> points;
};

/// One way of writing a digit.
using Glyph = std::vector<Stroke>;

/// The ways of writing `digit`, 0 to 9.
const std::vector<Glyph>& glyphs_of(int64_t digit);

/// The stroke as the corners of a line.
std::vector<Point> outline(const Stroke& stroke);

}  // namespace accel
