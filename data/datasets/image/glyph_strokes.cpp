#include "data/datasets/image/glyph_strokes.h"

#include <algorithm>

namespace accel {
namespace {

constexpr auto kLines = Stroke::Path::kLines;
constexpr auto kCurve = Stroke::Path::kCurve;
constexpr auto kLoop = Stroke::Path::kLoop;
constexpr int kPiecesPerSpan = 4;  // line segments between two control points

using Alphabet = std::vector<std::vector<Glyph>>;

Alphabet low_digits() {
  return {
      {{{kLoop,
         {{.5, .02}, {.83, .2}, {.88, .5}, {.83, .8}, {.5, .98}, {.17, .8}, {.12, .5}, {.17, .2}}}},
       {{kLoop, {{.5, .02}, {.75, .25}, {.75, .75}, {.5, .98}, {.25, .75}, {.25, .25}}}}},
      {{{kLines, {{.5, .02}, {.5, .98}}}},
       {{kLines, {{.28, .22}, {.55, .02}, {.55, .98}}}},
       {{kLines, {{.28, .22}, {.52, .02}, {.52, .98}}}, {kLines, {{.25, .98}, {.8, .98}}}}},
      {{{kCurve, {{.15, .25}, {.3, .05}, {.62, .02}, {.83, .2}, {.75, .45}, {.45, .7}, {.13, .97}}},
        {kLines, {{.13, .97}, {.88, .95}}}},
       {{kCurve,
         {{.15, .22},
          {.45, .02},
          {.8, .2},
          {.65, .55},
          {.3, .9},
          {.2, .75},
          {.5, .85},
          {.9, .95}}}}},
      {{{kCurve, {{.17, .12}, {.5, .02}, {.8, .15}, {.75, .38}, {.42, .47}}},
        {kCurve, {{.42, .47}, {.8, .58}, {.85, .82}, {.5, .98}, {.13, .87}}}},
       {{kLines, {{.18, .04}, {.8, .04}, {.45, .42}}},
        {kCurve, {{.45, .42}, {.8, .55}, {.85, .8}, {.5, .98}, {.13, .87}}}}},
      {{{kLines, {{.65, .98}, {.65, .02}, {.1, .65}, {.9, .65}}}},
       {{kLines, {{.2, .05}, {.17, .52}, {.85, .5}}}, {kLines, {{.72, .1}, {.68, .98}}}}},
  };
}

Alphabet high_digits() {
  return {
      {{{kLines, {{.8, .03}, {.25, .03}, {.2, .45}}},
        {kCurve, {{.2, .45}, {.5, .36}, {.83, .52}, {.83, .8}, {.5, .98}, {.13, .88}}}},
       {{kLines, {{.85, .05}, {.3, .05}}},
        {kCurve, {{.3, .05}, {.25, .4}, {.65, .45}, {.8, .7}, {.55, .95}, {.15, .92}}}}},
      {{{kCurve,
         {{.72, .03},
          {.38, .2},
          {.16, .55},
          {.2, .85},
          {.5, .98},
          {.8, .83},
          {.78, .6},
          {.5, .5},
          {.2, .66}}}},
       {{kCurve,
         {{.45, .02},
          {.22, .4},
          {.18, .75},
          {.45, .98},
          {.78, .85},
          {.7, .6},
          {.4, .6},
          {.22, .8}}}}},
      {{{kLines, {{.12, .04}, {.86, .04}, {.4, .98}}}},
       {{kLines, {{.12, .04}, {.86, .04}, {.4, .98}}}, {kLines, {{.3, .5}, {.78, .5}}}},
       {{kCurve, {{.12, .15}, {.3, .04}, {.6, .1}, {.85, .05}, {.6, .4}, {.45, .98}}}}},
      {{{kLoop,
         {{.5, .47},
          {.22, .33},
          {.25, .1},
          {.5, .02},
          {.75, .1},
          {.78, .33},
          {.5, .47},
          {.17, .65},
          {.18, .88},
          {.5, .98},
          {.82, .88},
          {.83, .65}}}},
       {{kLoop, {{.5, .02}, {.75, .24}, {.5, .46}, {.25, .24}}},
        {kLoop, {{.5, .46}, {.84, .72}, {.5, .98}, {.16, .72}}}}},
      {{{kLoop, {{.5, .02}, {.78, .25}, {.5, .52}, {.2, .28}}},
        {kCurve, {{.78, .25}, {.78, .6}, {.6, .98}}}},
       {{kLoop, {{.48, .03}, {.76, .24}, {.5, .48}, {.2, .25}}},
        {kCurve, {{.78, .1}, {.8, .6}, {.6, .95}, {.22, .9}}}}},
  };
}

Alphabet all_digits() {
  Alphabet all = low_digits();
  for (auto& glyphs : high_digits()) all.push_back(std::move(glyphs));
  return all;
}

/// The Catmull-Rom curve from b to c at t in [0, 1].
Point along(const Point (&p)[4], double t) {
  const auto blend = [t](double a, double b, double c, double d) {
    return 0.5 *
           (2 * b + t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))));
  };
  return {blend(p[0].x, p[1].x, p[2].x, p[3].x), blend(p[0].y, p[1].y, p[2].y, p[3].y)};
}

}  // namespace

const std::vector<Glyph>& glyphs_of(int64_t digit) {
  static const Alphabet kDigits = all_digits();
  return kDigits[static_cast<size_t>(digit)];
}

std::vector<Point> outline(const Stroke& stroke) {
  const std::vector<Point>& points = stroke.points;
  if (stroke.path == kLines) return points;
  const auto count = static_cast<int>(points.size());
  const bool loop = stroke.path == kLoop;
  // The ends of a curve are duplicated, so that it starts and stops there; a loop wraps around.
  const auto at = [&](int i) {
    return points[static_cast<size_t>(loop ? (i + count) % count : std::clamp(i, 0, count - 1))];
  };
  std::vector<Point> corners = {points.front()};
  for (int i = 0; i < (loop ? count : count - 1); ++i) {
    const Point around[] = {at(i - 1), at(i), at(i + 1), at(i + 2)};
    for (int piece = 1; piece <= kPiecesPerSpan; ++piece) {
      corners.push_back(along(around, static_cast<double>(piece) / kPiecesPerSpan));
    }
  }
  return corners;
}

}  // namespace accel
