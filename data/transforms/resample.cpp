#include "data/transforms/resample.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace accel {
namespace {

constexpr int kFractionBits = 22;  // of Pillow's 8-bit weights

/// The weighted inputs of one output pixel.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

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

std::vector<Taps> filter_taps(int64_t from, int64_t to, const Filter& filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);  // downscaling averages over all covered pixels
  const double support = filter.support * stretch;
  std::vector<Taps> all;
  for (int64_t x = 0; x < to; ++x) {
    const double middle = (static_cast<double>(x) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(middle - support + 0.5));
    const auto last = std::min(from, static_cast<int64_t>(middle + support + 0.5));
    Taps taps{first, {}};
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double distance = std::abs((static_cast<double>(i) - middle + 0.5) * (1.0 / stretch));
      taps.weights.push_back(filter.weight(distance));
      sum += taps.weights.back();
    }
    for (double& weight : taps.weights) weight /= sum;
    all.push_back(std::move(taps));
  }
  return all;
}

std::vector<Taps> nearest_taps(int64_t from, int64_t to) {
  std::vector<Taps> all;
  for (int64_t x = 0; x < to; ++x) all.push_back({(2 * x + 1) * from / (2 * to), {1.0}});
  return all;
}

std::vector<Taps> taps_of(int64_t from, int64_t to, Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      return filter_taps(from, to, kBilinear);
    case Interpolation::kBicubic:
      return filter_taps(from, to, kBicubic);
    case Interpolation::kNearest:
      return nearest_taps(from, to);
  }
  return {};
}

/// An image as a sequence of lines along one axis.
struct AxisView {
  int64_t outer;
  int64_t length;
  int64_t inner;
};

float weighted(const float* pixel, int64_t stride, const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) {
    sum += static_cast<double>(*pixel) * weight;
    pixel += stride;
  }
  return static_cast<float>(sum);
}

uint8_t weighted(const uint8_t* pixel, int64_t stride, const std::vector<int32_t>& weights) {
  int32_t sum = 1 << (kFractionBits - 1);
  for (const int32_t weight : weights) {
    sum += *pixel * weight;
    pixel += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

void resample_axis(const float* in, float* out, const AxisView& view,
                   const std::vector<Taps>& taps) {
  for (int64_t o = 0; o < view.outer; ++o, in += view.length * view.inner) {
    for (const Taps& tap : taps) {
      const float* first = in + tap.first * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        *out++ = weighted(first + i, view.inner, tap.weights);
      }
    }
  }
}

void resample_axis(const uint8_t* in, uint8_t* out, const AxisView& view,
                   const std::vector<Taps>& taps) {
  std::vector<std::vector<int32_t>> weights;
  for (const Taps& tap : taps) {
    std::vector<int32_t>& fixed = weights.emplace_back();
    for (const double weight : tap.weights) {
      const double half = weight < 0 ? -0.5 : 0.5;
      fixed.push_back(static_cast<int32_t>(half + weight * (1 << kFractionBits)));
    }
  }
  for (int64_t o = 0; o < view.outer; ++o, in += view.length * view.inner) {
    for (size_t x = 0; x < taps.size(); ++x) {
      const uint8_t* first = in + taps[x].first * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        *out++ = weighted(first + i, view.inner, weights[x]);
      }
    }
  }
}

/// `image` with dimension `axis` resized to `to`; unchanged if equal.
template <class T>
Array along(const Array& image, size_t axis, int64_t to, Interpolation interpolation) {
  Shape shape = image.shape();
  const int64_t from = shape[axis];
  if (from == to) return image;
  AxisView view{1, from, 1};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i < axis) view.outer *= shape[i];
    if (i > axis) view.inner *= shape[i];
  }
  shape[axis] = to;
  Array out(image.type(), shape);
  resample_axis(image.as<T>().data(), out.mutable_as<T>().data(), view,
                taps_of(from, to, interpolation));
  return out;
}

}  // namespace

ImageSize resized(const ImageSize& from, const std::vector<int64_t>& size) {
  if (size.size() == 2) return {size[0], size[1]};
  const int64_t side = size.front();
  const int64_t shorter = std::min(from.height, from.width);
  if (shorter == 0) return {0, 0};
  const int64_t longer = static_cast<int64_t>(
      static_cast<double>(side * std::max(from.height, from.width)) / static_cast<double>(shorter));
  return from.height <= from.width ? ImageSize{side, longer} : ImageSize{longer, side};
}

Array resample_bytes(const Array& image, const ImageSize& size, Interpolation interpolation) {
  const Array wide = along<uint8_t>(image, 1, size.width, interpolation);
  return along<uint8_t>(wide, 0, size.height, interpolation);
}

Array resample_floats(const Array& image, const ImageSize& size, Interpolation interpolation) {
  const Array wide = along<float>(image, 2, size.width, interpolation);
  return along<float>(wide, 1, size.height, interpolation);
}

}  // namespace accel
