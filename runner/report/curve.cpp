#include "runner/report/curve.h"

#include <algorithm>
#include <cmath>

namespace accel {
namespace {

CurvePiece joined(const CurvePiece& a, const CurvePiece& b) {
  CurvePiece out = b;
  if (a.low <= b.low) {
    out.low = a.low;
    out.low_step = a.low_step;
  }
  if (a.high >= b.high) {
    out.high = a.high;
    out.high_step = a.high_step;
  }
  out.sum = a.sum + b.sum;
  out.count = a.count + b.count;
  return out;
}

}  // namespace

void Curve::add(int64_t step, double value) {
  if (!std::isfinite(value)) {
    if (not_finite_++ == 0) first_not_finite_ = step;
    return;
  }
  const CurvePiece one{step, value, step, value, step, value, value, 1};
  if (!pieces_.empty() && pieces_.back().count < per_piece_) {
    pieces_.back() = joined(pieces_.back(), one);
    return;
  }
  if (pieces_.size() == kMostPieces) {
    for (size_t i = 0; i < kMostPieces / 2; ++i) {
      pieces_[i] = joined(pieces_[2 * i], pieces_[2 * i + 1]);
    }
    pieces_.resize(kMostPieces / 2);
    per_piece_ *= 2;
  }
  pieces_.push_back(one);
}

double Curve::low() const {
  return std::min_element(pieces_.begin(), pieces_.end(),
                          [](const auto& a, const auto& b) { return a.low < b.low; })
      ->low;
}

double Curve::high() const {
  return std::max_element(pieces_.begin(), pieces_.end(),
                          [](const auto& a, const auto& b) { return a.high < b.high; })
      ->high;
}

int64_t Curve::first_step() const {
  return std::min(pieces_.front().low_step, pieces_.front().high_step);
}

}  // namespace accel
