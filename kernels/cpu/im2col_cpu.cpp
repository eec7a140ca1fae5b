#include "kernels/cpu/loops.h"

#include <algorithm>

namespace accel {
namespace {

/// The rows or columns [begin, end) of a window that lie within the image.
struct PartInside {
  int64_t first;  ///< position of the window's first row or column in the image
  int64_t begin, end;
};

PartInside part_inside(const ImageWindows& sizes, int dim, int64_t index) {
  const int64_t first = index * sizes.stride[dim] - sizes.padding[dim];
  return {first, std::max<int64_t>(0, -first), std::min(sizes.window[dim], sizes.in[dim] - first)};
}

/// Calls `visit(rows, columns, window)` for each window, in order.
template <typename Number, typename Visit>
void for_each_window(const ImageWindows& sizes, Number* columns, const Visit& visit) {
  for (int64_t y = 0; y < sizes.out[0]; ++y) {
    const PartInside rows = part_inside(sizes, 0, y);
    for (int64_t x = 0; x < sizes.out[1]; ++x, columns += sizes.numbers()) {
      visit(rows, part_inside(sizes, 1, x), columns);
    }
  }
}

template <typename Number>
void gather(const Number* image, const ImageWindows& sizes, Number* columns) {
  const int64_t height = sizes.window[0], width = sizes.window[1];
  for_each_window(sizes, columns, [&](PartInside rows, PartInside cols, Number* window) {
    std::fill_n(window, sizes.numbers(), Number(0));
    for (int64_t c = 0; c < sizes.channels; ++c) {
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        const Number* from = image + (c * sizes.in[0] + rows.first + i) * sizes.in[1] + cols.first;
        Number* to = window + (c * height + i) * width;
        for (int64_t j = cols.begin; j < cols.end; ++j) to[j] = from[j];
      }
    }
  });
}

}  // namespace

void gather_windows_cpu(const float* image, const ImageWindows& sizes, float* columns) {
  gather(image, sizes, columns);
}

void gather_windows_cpu(const uint16_t* image, const ImageWindows& sizes, uint16_t* columns) {
  gather(image, sizes, columns);
}

void scatter_windows_cpu(const float* columns, const ImageWindows& sizes, float* image) {
  const int64_t height = sizes.window[0], width = sizes.window[1];
  for_each_window(sizes, columns, [&](PartInside rows, PartInside cols, const float* window) {
    for (int64_t c = 0; c < sizes.channels; ++c) {
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        float* to = image + (c * sizes.in[0] + rows.first + i) * sizes.in[1] + cols.first;
        const float* from = window + (c * height + i) * width;
        for (int64_t j = cols.begin; j < cols.end; ++j) to[j] += from[j];
      }
    }
  });
}

}  // namespace accel
