// Curves drawn as SVG, without scripts and without anything from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/report/curve.h"

namespace accel {

struct ChartLine {
  std::string label;
  const Curve* curve = nullptr;  ///< outlives the chart
  int color = 0;                 ///< 0 to 7
  bool faint = false;            ///< behind another line of the same color
  bool dots = false;             ///< few values, far apart
};

/// A step at which something happened.
struct ChartMark {
  int64_t step = 0;
  std::string label;
  bool bad = false;
};

struct Chart {
  std::string title;
  std::vector<ChartLine> lines;  ///< empty curves are left out
  std::vector<ChartMark> marks = {};
  bool may_be_logarithmic = false;  ///< where values span more than a factor of 30
  std::string along = "step";       ///< what the values are drawn over
};

/// Whether there is anything to draw.
bool has_values(const Chart& chart);

/// A <figure> with title, legend and drawing. Pieces of a curve that stand for several values are
/// drawn as a band from the lowest to the highest, with their mean; the figure says so.
std::string chart_figure(const Chart& chart);

}  // namespace accel
