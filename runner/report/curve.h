// A quantity over the steps of a run, in bounded memory however long the run is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accel {

/// Values that lie next to each other, of which the extremes are kept: a spike stays visible.
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

/// Takes values in the order of their steps. Up to kMostPieces values are kept as they are; beyond
/// that, neighbours are joined into pieces of equally many.
class Curve {
 public:
  static constexpr size_t kMostPieces = 800;

  /// Values that are not finite are counted and leave no other trace.
  void add(int64_t step, double value);

  const std::vector<CurvePiece>& pieces() const { return pieces_; }
  bool empty() const { return pieces_.empty(); }
  /// How many values a piece holds; the last one may hold fewer.
  int64_t per_piece() const { return per_piece_; }
  int64_t not_finite() const { return not_finite_; }
  /// The step of the first value that was not finite; -1: there was none.
  int64_t first_not_finite() const { return first_not_finite_; }
  /// Of a curve that is not empty.
  double low() const;
  double high() const;
  double last() const { return pieces_.back().last; }
  int64_t first_step() const;
  int64_t last_step() const { return pieces_.back().last_step; }

 private:
  std::vector<CurvePiece> pieces_;
  int64_t per_piece_ = 1;
  int64_t not_finite_ = 0;
  int64_t first_not_finite_ = -1;
};

}  // namespace accel
