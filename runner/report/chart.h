// Curves in bounded memory, and SVG charts of them without scripts or external resources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// Consecutive values, reduced to extremes, sum and last, so that spikes stay visible.
struct CurvePiece {
  int64_t low_step = 0;
  double low = 0;
  int64_t high_step = 0;
  double high = 0;
  int64_t last_step = 0;
  double last = 0;
  double sum = 0;
  int64_t count = 0;
};

/// Values arrive in the order of steps. Up to kMostPieces are kept individually; then neighbours
/// are merged into pieces of equal counts.
class Curve {
 public:
  static constexpr size_t kMostPieces = 800;

  /// Non-finite values are only counted.
  void add(int64_t step, double value);

  const std::vector<CurvePiece>& pieces() const { return pieces_; }
  bool empty() const { return pieces_.empty(); }
  /// Values per piece; the last piece may hold fewer.
  int64_t per_piece() const { return per_piece_; }
  int64_t not_finite() const { return not_finite_; }
  /// The step of the first non-finite value; -1: none.
  int64_t first_not_finite() const { return first_not_finite_; }
  /// The following need a non-empty curve.
  double low() const { return lowest().low; }
  double high() const { return highest().high; }
  int64_t low_step() const { return lowest().low_step; }
  int64_t high_step() const { return highest().high_step; }
  double last() const { return pieces_.back().last; }
  int64_t first_step() const;
  int64_t last_step() const { return pieces_.back().last_step; }

 private:
  const CurvePiece& lowest() const;
  const CurvePiece& highest() const;

  std::vector<CurvePiece> pieces_;
  int64_t per_piece_ = 1;
  int64_t not_finite_ = 0;
  int64_t first_not_finite_ = -1;
};

/// The multiples of 1, 2 or 5 times a power of ten from `low` to `high`, about `count` of them.
/// Empty unless low < high and both are finite.
std::vector<double> ladder(double low, double high, int count);

/// The powers of ten from `low` to `high`, both positive; if fewer than two, also 2 and 5 times
/// each.
std::vector<double> power_ladder(double low, double high);

/// Which value of a curve is marked.
enum class BestValue { kNone, kLowest, kHighest };

struct ChartLine {
  std::string label;
  const Curve* curve = nullptr;  ///< must outlive the chart
  int color = 0;                 ///< 0 to 7
  bool faint = false;            ///< drawn under another line of the same color
  bool dots = false;             ///< few, sparse values
  BestValue best = BestValue::kNone;
};

/// An event at a step.
struct ChartMark {
  int64_t step = 0;
  std::string label;
  bool bad = false;
};

struct Chart {
  std::string title;
  std::vector<ChartLine> lines;  ///< empty curves are left out
  std::vector<ChartMark> marks = {};
  bool may_be_logarithmic = false;  ///< used if values span more than a factor of 30
  std::string along = "step";       ///< label of the x axis
};

/// Whether any curve has values.
bool has_values(const Chart& chart);

/// A <figure> with title, legend (also of the marks and of the best value) and drawing. Pieces with
/// several values are drawn as a band from minimum to maximum with their mean, as the caption
/// explains.
std::string chart_figure(const Chart& chart);

}  // namespace accel
