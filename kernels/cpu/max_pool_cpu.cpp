#include "kernels/cpu/loops.h"

#include "core/base/cpu_target.h"

namespace accel {
namespace {

constexpr float kLeast = -__builtin_inff();

ACCEL_PART_OF_LOOP int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}
ACCEL_PART_OF_LOOP int64_t sooner(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// One row of outputs and the positions of their maxima.
struct PoolRow {
  float* y;
  int32_t* places;
};

/// Updates the maxima y[i] by x[first + i * stride] for i in [begin, end).
template <int64_t kStride>
ACCEL_PART_OF_LOOP void compete(const float* __restrict x, int64_t first, int64_t begin,
                                int64_t end, PoolRow row) {
  float* __restrict y = row.y;
  int32_t* __restrict places = row.places;
  for (int64_t i = begin; i < end; ++i) {
    const float value = x[first + i * kStride];
    const bool wins = value > y[i] || value != value;  // a NaN is never replaced
    places[i] = wins ? static_cast<int32_t>(first + i * kStride) : places[i];
    y[i] = wins ? value : y[i];
  }
}

template <int64_t kStride>
ACCEL_PART_OF_LOOP void pool_rows(const float* x, const PoolPlane& p, float* y, int32_t* places) {
  const int64_t height = p.in[0], width = p.in[1];
  for (int64_t row = 0; row < p.out[0]; ++row, y += p.out[1], places += p.out[1]) {
    const int64_t top = row * kStride - p.padding;
    for (int64_t i = 0; i < p.out[1]; ++i) {
      y[i] = kLeast;
      // If all values are -inf, the maximum is the window's first element.
      places[i] = static_cast<int32_t>(later(top, 0) * width + later(i * kStride - p.padding, 0));
    }
    for (int64_t h = later(top, 0); h < sooner(top + p.window, height); ++h) {
      for (int64_t w = 0; w < p.window; ++w) {
        // Columns i * stride + shift of x that exist.
        const int64_t shift = w - p.padding;
        const int64_t begin = shift < 0 ? (kStride - 1 - shift) / kStride : 0;
        const int64_t end = sooner(p.out[1], (width - shift + kStride - 1) / kStride);
        compete<kStride>(x, h * width + shift, begin, end, {y, places});
      }
    }
  }
}

/// Elements of several rows, and their positions in the plane.
struct PoolBand {
  static constexpr int64_t kNumbers = 1024;
  float values[kNumbers];
  int32_t places[kNumbers];
};

/// Maximum of each element of a row and the one below it, into the band.
ACCEL_PART_OF_LOOP void pool_two_rows(const float* __restrict x, const PoolPlane& p, int64_t top,
                                      float* __restrict values, int32_t* __restrict places) {
  const int64_t width = p.in[1], first = top * width;
  for (int64_t i = 0; i < 2 * p.out[1]; ++i) {
    const float above = x[first + i], below = x[first + width + i];
    const bool wins = below > above || below != below;
    values[i] = wins ? below : above;
    places[i] = static_cast<int32_t>(wins ? first + width + i : first + i);
  }
}

/// Maximum of adjacent elements of the band, with the ties of a row-by-row scan: the first of equal
/// values, the last NaN.
ACCEL_PART_OF_LOOP void pool_neighbours(const PoolBand& band, int64_t count, float* __restrict y,
                                        int32_t* __restrict places) {
  for (int64_t i = 0; i < count; ++i) {
    const float left = band.values[2 * i], right = band.values[2 * i + 1];
    const int32_t at_left = band.places[2 * i], at_right = band.places[2 * i + 1];
    const bool is_later = at_right > at_left;
    const bool wins = (right > left) | ((right == left) & !is_later) |
                      ((right != right) & ((left == left) | is_later));
    y[i] = wins ? right : left;
    places[i] = wins ? at_right : at_left;
  }
}

/// Non-overlapping 2 x 2 windows: reduces rows, then columns, of many rows at once, because rows of
/// small images are too short for vector instructions.
ACCEL_PART_OF_LOOP void pool_fours(const float* x, const PoolPlane& p, float* y, int32_t* places) {
  PoolBand band;
  const int64_t most = PoolBand::kNumbers / (2 * p.out[1]);
  for (int64_t row = 0; row < p.out[0]; row += most) {
    const int64_t rows = sooner(most, p.out[0] - row);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t to = 2 * i * p.out[1];
      pool_two_rows(x, p, 2 * (row + i), band.values + to, band.places + to);
    }
    pool_neighbours(band, rows * p.out[1], y + row * p.out[1], places + row * p.out[1]);
  }
}

ACCEL_PART_OF_LOOP void pool(const float* x, const PoolPlane& plane, float* y, int32_t* places) {
  const bool is_fours = plane.window == 2 && plane.stride == 2 && plane.padding == 0;
  if (is_fours && 2 * plane.out[1] <= PoolBand::kNumbers) return pool_fours(x, plane, y, places);
  if (plane.stride == 1) return pool_rows<1>(x, plane, y, places);
  if (plane.stride == 2) return pool_rows<2>(x, plane, y, places);
  pool_rows<3>(x, plane, y, places);
}

}  // namespace

ACCEL_FOR_EACH_CPU(max_pool_cpu, pool,
                   (const float* x, const PoolPlane& plane, float* y, int32_t* places),
                   (x, plane, y, places))

}  // namespace accel
