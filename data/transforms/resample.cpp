#include "data/transforms/resample.h"

#include <algorithm>

namespace accel {
namespace {

/// An image as a sequence of lines along one axis.
struct AxisView {
  int64_t outer;
  int64_t length;
  int64_t inner;
};

float weighted(const float* pixel, int64_t stride, const double* weights, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(pixel[i * stride]) * weights[i];
  return static_cast<float>(sum);
}

void resample_axis(const float* in, float* out, const AxisView& view, const FilterTaps& taps) {
  for (int64_t o = 0; o < view.outer; ++o, in += view.length * view.inner) {
    for (const FilterTaps::Output& output : taps.outputs) {
      const float* first = in + output.first * view.inner;
      const double* const weights = taps.weights.data() + output.begin;
      for (int64_t i = 0; i < view.inner; ++i) {
        *out++ = weighted(first + i, view.inner, weights, output.count);
      }
    }
  }
}

/// `image` with dimension `axis` resized to `to`; unchanged if equal.
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
  Array out(DType::kF32, shape);
  resample_axis(image.as<float>().data(), out.mutable_as<float>().data(), view,
                filter_taps(from, to, interpolation));
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

bool is_height_first(const ImageSize& from, const ImageSize& to) {
  const int64_t lost = from.height - to.height;
  return lost > 0 && lost > 2 * (from.width - to.width);
}

Array resample_floats(const Array& image, const ImageSize& size, Interpolation interpolation) {
  if (is_height_first({image.shape()[1], image.shape()[2]}, size)) {
    const Array low = along(image, 1, size.height, interpolation);
    return along(low, 2, size.width, interpolation);
  }
  const Array wide = along(image, 2, size.width, interpolation);
  return along(wide, 1, size.height, interpolation);
}

}  // namespace accel
