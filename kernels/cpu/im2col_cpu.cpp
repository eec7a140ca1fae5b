#include <algorithm>

#include "core/base/cpu_target.h"
#include "kernels/cpu/loops.h"

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

/// Positions [begin, end) of a row whose pixel at `first + position * stride` is in the image.
struct PositionsInside {
  int64_t begin, end, first;
};

ACCEL_PART_OF_LOOP PositionsInside positions_inside(const ImageWindows& sizes, int64_t column) {
  const int64_t first = column - sizes.padding[1], stride = sizes.stride[1];
  const int64_t before = first < 0 ? (stride - 1 - first) / stride : 0;
  const int64_t last = sizes.in[1] - 1 - first;
  const int64_t seen = last < 0 ? 0 : last / stride + 1;
  const int64_t end = seen < sizes.out[1] ? seen : sizes.out[1];
  return {before < end ? before : end, end, first};
}

/// Calls `visit(pixels, inside, numbers)` for each row of columns, in order; `pixels` is null for
/// rows outside the image.
template <typename Pixel, typename Number, typename Visit>
ACCEL_PART_OF_LOOP void for_each_row(const ImageWindows& sizes, WindowRows rows, Pixel* image,
                                     Number* columns, const Visit& visit) {
  for (int64_t c = 0; c < sizes.channels; ++c, image += sizes.in[0] * sizes.in[1]) {
    for (int64_t i = 0; i < sizes.window[0]; ++i) {
      for (int64_t j = 0; j < sizes.window[1]; ++j) {
        const PositionsInside inside = positions_inside(sizes, j);
        for (int64_t y = rows.begin; y < rows.end; ++y, columns += sizes.out[1]) {
          const int64_t row = y * sizes.stride[0] - sizes.padding[0] + i;
          const bool is_inside = row >= 0 && row < sizes.in[0];
          visit(is_inside ? image + row * sizes.in[1] : nullptr, inside, columns);
        }
      }
    }
  }
}

// Rows are short: whole blocks first, without the set-up of a loop over vectors.
constexpr int64_t kBlock = 8;

ACCEL_PART_OF_LOOP void copy_numbers(const float* __restrict from, int64_t count,
                                     float* __restrict to) {
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock)
    __builtin_memcpy(to + i, from + i, sizeof(float[kBlock]));
  for (; i < count; ++i) to[i] = from[i];
}

ACCEL_PART_OF_LOOP void add_numbers(const float* __restrict from, int64_t count,
                                    float* __restrict to) {
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (int64_t lane = 0; lane < kBlock; ++lane) to[i + lane] += from[i + lane];
  }
  for (; i < count; ++i) to[i] += from[i];
}

ACCEL_PART_OF_LOOP void gather_row(const float* pixels, const PositionsInside& inside,
                                   const ImageWindows& sizes, float* to) {
  const int64_t begin = pixels == nullptr ? sizes.out[1] : inside.begin;
  for (int64_t x = 0; x < begin; ++x) to[x] = 0;
  if (pixels == nullptr) return;
  if (const int64_t stride = sizes.stride[1]; stride == 1) {
    copy_numbers(pixels + inside.first + begin, inside.end - begin, to + begin);
  } else {
    for (int64_t x = begin; x < inside.end; ++x) to[x] = pixels[inside.first + x * stride];
  }
  for (int64_t x = inside.end; x < sizes.out[1]; ++x) to[x] = 0;
}

ACCEL_PART_OF_LOOP void scatter_rows(const float* columns, const ImageWindows& sizes,
                                     WindowRows rows, float* image) {
  const int64_t stride = sizes.stride[1];
  const auto add_row = [&](float* pixels, const PositionsInside& inside, const float* numbers) {
    if (pixels == nullptr) return;
    if (stride == 1) {
      add_numbers(numbers + inside.begin, inside.end - inside.begin,
                  pixels + inside.first + inside.begin);
    } else {
      for (int64_t x = inside.begin; x < inside.end; ++x) {
        pixels[inside.first + x * stride] += numbers[x];
      }
    }
  };
  for_each_row(sizes, rows, image, columns, add_row);
}

}  // namespace

void gather_rows_cpu(const float* image, const ImageWindows& sizes, WindowRows rows,
                     float* columns) {
  const auto copy_row = [&](const float* pixels, const PositionsInside& inside, float* to) {
    gather_row(pixels, inside, sizes, to);
  };
  for_each_row(sizes, rows, image, columns, copy_row);
}

ACCEL_FOR_EACH_CPU(scatter_rows_cpu, scatter_rows,
                   (const float* columns, const ImageWindows& sizes, WindowRows rows, float* image),
                   (columns, sizes, rows, image))

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
