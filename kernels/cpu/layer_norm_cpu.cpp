#include "kernels/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/lanes.h"

namespace accel {
namespace {

ACCEL_PART_OF_LOOP void add(const float* __restrict x, const float* __restrict branch,
                            float* __restrict sum, int64_t width) {
  for (int64_t i = 0; i < width; ++i) sum[i] = x[i] + branch[i];
}

ACCEL_PART_OF_LOOP void center(const float* __restrict x, float mean, float* __restrict y,
                               int64_t width) {
  for (int64_t i = 0; i < width; ++i) y[i] = x[i] - mean;
}

ACCEL_PART_OF_LOOP void scale(const float* __restrict weight, const float* __restrict bias,
                              float by, float* __restrict y, int64_t width) {
  if (bias == nullptr) {
    for (int64_t i = 0; i < width; ++i) y[i] = y[i] * by * weight[i];
  } else {
    for (int64_t i = 0; i < width; ++i) y[i] = y[i] * by * weight[i] + bias[i];
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void forward(const LayerNormRows& of, float* sum, float* y,
                                const RowMoments<float>& moments) {
  const float *x = of.x, *branch = of.branch;
  const auto width = static_cast<float>(of.width);
  for (int64_t row = 0; row < of.rows; ++row, x += of.width, y += of.width) {
    const float* row_of_sum = x;
    if (branch != nullptr) {
      add(x, branch, sum, of.width);
      row_of_sum = sum;
      branch += of.width;
      sum += of.width;
    }
    const float mean = over_lanes<kBytes>(row_of_sum, of.width, 0.0F, Sum()) / width;
    center(row_of_sum, mean, y, of.width);
    const float variance = sum_of_products<kBytes>(y, y, of.width) / width;
    const float by = 1.0F / std::sqrt(variance + of.eps);
    scale(of.weight, of.bias, by, y, of.width);
    moments.means[row] = mean;
    moments.scales[row] = by;
  }
}

/// Sums over a row.
struct SlopeSums {
  float slopes, products;
};

/// Of the slopes d of the normed numbers, and of their products with x - mean.
template <int kBytes>
ACCEL_PART_OF_LOOP SlopeSums sums_of(const float* d, const float* x, float mean, int64_t width) {
  using Float = typename Lanes<kBytes>::Float;
  Lanes<kBytes> slopes(0.0F), products(0.0F);
  const auto join = [&](const float* from, const float* numbers) __attribute__((always_inline)) {
    slopes.each([&](Float & sum, int first) __attribute__((always_inline)) {
      Float slope;
      load(from + first, slope);
      sum += slope;
    });
    products.each([&](Float & sum, int first) __attribute__((always_inline)) {
      Float slope, number;
      load(from + first, slope);
      load(numbers + first, number);
      sum += slope * (number - mean);
    });
  };
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) join(d + i, x + i);
  if (i < width) {
    float last[kLanes] = {}, numbers[kLanes] = {};
    std::copy(d + i, d + width, last);
    std::copy(x + i, x + width, numbers);
    join(last, numbers);
  }
  return {slopes.joined(Sum()), products.joined(Sum())};
}

/// One row of a backward pass.
struct SlopeRow {
  const float *x, *dy;
  float* dx;
  float mean, scale;
};

/// dx: the slopes of the normed numbers.
ACCEL_PART_OF_LOOP void add_slopes(const LayerNormRows& of, const SlopeRow& row,
                                   const LayerNormSlopes& slopes) {
  const float* __restrict x = row.x;
  const float* __restrict dy = row.dy;
  const float* __restrict weight = of.weight;
  float* __restrict dx = row.dx;
  float* __restrict weights = slopes.weight_sums;
  float* __restrict biases = slopes.bias_sums;
  for (int64_t i = 0; i < of.width; ++i) {
    dx[i] = dy[i] * weight[i];
    weights[i] += dy[i] * ((x[i] - row.mean) * row.scale);
    biases[i] += dy[i];
  }
}

/// dsum: of the row; null: none.
ACCEL_PART_OF_LOOP void finish(const SlopeRow& row, const SlopeSums& sums,
                               const float* __restrict dsum, int64_t width) {
  const float* __restrict x = row.x;
  float* __restrict dx = row.dx;
  const auto count = static_cast<float>(width);
  const float scale = row.scale, mean = row.mean;
  const float shift = sums.slopes / count, back = sums.products * scale * scale / count;
  if (dsum == nullptr) {
    for (int64_t i = 0; i < width; ++i) dx[i] = scale * (dx[i] - shift - (x[i] - mean) * back);
  } else {
    for (int64_t i = 0; i < width; ++i) {
      dx[i] = scale * (dx[i] - shift - (x[i] - mean) * back) + dsum[i];
    }
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void backward(const LayerNormRows& of, const RowMoments<const float>& moments,
                                 const LayerNormSlopes& slopes) {
  const float* dsum = slopes.dsum;
  for (int64_t i = 0; i < of.rows; ++i) {
    const int64_t first = i * of.width;
    const SlopeRow row = {of.x + first, slopes.dy + first, slopes.dx + first, moments.means[i],
                          moments.scales[i]};
    add_slopes(of, row, slopes);
    finish(row, sums_of<kBytes>(row.dx, row.x, row.mean, of.width), dsum, of.width);
    if (dsum != nullptr) dsum += of.width;
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU_OF(layer_norm_cpu, (forward<64>, forward<32>, forward<16>),
                      (const LayerNormRows& of, float* sum, float* y,
                       const RowMoments<float>& moments),
                      (of, sum, y, moments))
ACCEL_FOR_EACH_CPU_OF(layer_norm_backward_cpu, (backward<64>, backward<32>, backward<16>),
                      (const LayerNormRows& of, const RowMoments<const float>& moments,
                       const LayerNormSlopes& slopes),
                      (of, moments, slopes))

}  // namespace accel
