#include "data/transforms/filter_taps.h"

#include <algorithm>
#include <cmath>

namespace accel {
namespace {

/// The weight of a pixel at a distance in pixels, and the largest distance with a weight.
struct Filter {
  double (*weight)(double distance);
  double support;
};

constexpr Filter kBilinear = {[](double x) { return std::max(0.0, 1.0 - x); }, 1};
/// Keys' cubic with a = -0.5, in Pillow's order of operations.
constexpr Filter kBicubic = {[](double x) {
                               constexpr double a = -0.5;
                               if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
                               return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
                             },
                             2};

FilterTaps weighted_taps(int64_t from, int64_t to, const Filter& filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);  // downscaling averages over all covered pixels
  const double support = filter.support * stretch;
  FilterTaps taps;
  taps.outputs.reserve(static_cast<size_t>(to));
  for (int64_t x = 0; x < to; ++x) {
    const double middle = (static_cast<double>(x) + 0.5) * scale;
    const auto first =
        std::max<int64_t>(0, static_cast<int64_t>(std::floor(middle - support + 0.5)));
    const auto last = std::min(from, static_cast<int64_t>(std::floor(middle + support + 0.5)));
    const size_t begin = taps.weights.size();
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double distance = std::abs((static_cast<double>(i) - middle + 0.5) * (1.0 / stretch));
      taps.weights.push_back(filter.weight(distance));
      sum += taps.weights.back();
    }
    for (size_t i = begin; i < taps.weights.size(); ++i) taps.weights[i] /= sum;
    taps.outputs.push_back({first, last - first, begin});
  }
  return taps;
}

/// Pillow adds up the positions with their rounding, which decides where one is between pixels.
FilterTaps single_taps(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  double position = scale * 0.5;
  FilterTaps taps;
  for (int64_t x = 0; x < to; ++x, position += scale) {
    const int64_t pixel = std::min(static_cast<int64_t>(position), from - 1);
    taps.outputs.push_back({pixel, 1, taps.weights.size()});
    taps.weights.push_back(1);
  }
  return taps;
}

}  // namespace

FilterTaps filter_taps(int64_t from, int64_t to, Interpolation interpolation) {
  if (from == to) return single_taps(from, to);
  switch (interpolation) {
    case Interpolation::kBilinear:
      return weighted_taps(from, to, kBilinear);
    case Interpolation::kBicubic:
      return weighted_taps(from, to, kBicubic);
    case Interpolation::kNearest:
      return single_taps(from, to);
  }
  return {};
}

}  // namespace accel
