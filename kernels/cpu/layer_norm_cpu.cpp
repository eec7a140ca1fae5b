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

/// Of the slopes dy * weight of the normed numbers, and of their products with x - mean.
template <int kBytes>
ACCEL_PART_OF_LOOP SlopeSums sums_of(const LayerNormRows& of, const float* dy, const float* x,
                                     float mean) {
  using Float = typename Lanes<kBytes>::Float;
  Lanes<kBytes> slopes(0.0F), products(0.0F);
  const auto join = [&](const float* slope_at, const float* weight_at, const float* x_at)
      __attribute__((always_inline)) {
    const auto find = [&](int first, Float& slope) __attribute__((always_inline)) {
      Float weight;
      load(slope_at + first, slope);
      load(weight_at + first, weight);
      slope *= weight;
    };
    slopes.each([&](Float & sum, int first) __attribute__((always_inline)) {
      Float slope;
      find(first, slope);
      sum += slope;
    });
    products.each([&](Float & sum, int first) __attribute__((always_inline)) {
      Float slope, number;
      find(first, slope);
      load(x_at + first, number);
      sum += slope * (number - mean);
    });
  };
  int64_t i = 0;
  for (; i + kLanes <= of.width; i += kLanes) join(dy + i, of.weight + i, x + i);
  if (i < of.width) {
    float last[kLanes] = {}, weights[kLanes] = {}, numbers[kLanes] = {};
    std::copy(dy + i, dy + of.width, last);
    std::copy(of.weight + i, of.weight + of.width, weights);
    std::copy(x + i, x + of.width, numbers);
    join(last, weights, numbers);
  }
  return {slopes.joined(Sum()), products.joined(Sum())};
}

/// What dx of a row consists of: scale * (dy * weight - shift - (x - mean) * back).
struct SlopeRow {
  float mean, scale, shift, back;
};

/// kRows rows of a backward pass with stride `width`, for which sums of parameters are read and
/// written once.
template <int kRows, bool kAdds>
struct SlopeBlock {
  const float *x, *dy, *dsum;
  float* dx;
  int64_t width;
  SlopeRow rows[kRows];

  /// Of a number or a register of numbers of each row, from column i.
  template <typename Float>
  ACCEL_PART_OF_LOOP void columns(int64_t i, const LayerNormRows& of,
                                  const LayerNormSlopes& slopes) const {
    Float weight, weight_sum, bias_sum;
    load(of.weight + i, weight);
    load(slopes.weight_sums + i, weight_sum);
    load(slopes.bias_sums + i, bias_sum);
    unrolled<kRows>([&](int r) __attribute__((always_inline)) {
      const int64_t at = r * width + i;
      Float number, slope;
      load(x + at, number);
      load(dy + at, slope);
      const Float centered = number - rows[r].mean;
      Float out = rows[r].scale * (slope * weight - rows[r].shift - centered * rows[r].back);
      if constexpr (kAdds) {
        Float more;
        load(dsum + at, more);
        out += more;
      }
      store(out, dx + at);
      weight_sum += slope * (centered * rows[r].scale);
      bias_sum += slope;
    });
    store(weight_sum, slopes.weight_sums + i);
    store(bias_sum, slopes.bias_sums + i);
  }
};

template <int kBytes, int kRows, bool kAdds>
ACCEL_PART_OF_LOOP void backward_of(const LayerNormRows& of, const RowMoments<const float>& moments,
                                    const LayerNormSlopes& slopes, int64_t row) {
  using Float = typename Register<kBytes>::Float;
  const int64_t first = row * of.width;
  SlopeBlock<kRows, kAdds> block = {
      of.x + first,      slopes.dy + first, kAdds ? slopes.dsum + first : nullptr,
      slopes.dx + first, of.width,          {}};
  const auto width = static_cast<float>(of.width);
  for (int r = 0; r < kRows; ++r) {
    const float mean = moments.means[row + r], scale = moments.scales[row + r];
    const SlopeSums sums =
        sums_of<kBytes>(of, block.dy + r * of.width, block.x + r * of.width, mean);
    block.rows[r] = {mean, scale, sums.slopes / width, sums.products * scale * scale / width};
  }
  constexpr int64_t kWidth = kBytes / sizeof(float);
  int64_t i = 0;
  for (; i + kWidth <= of.width; i += kWidth) block.template columns<Float>(i, of, slopes);
  for (; i < of.width; ++i) block.template columns<float>(i, of, slopes);
}

template <int kBytes, bool kAdds>
ACCEL_PART_OF_LOOP void all_backward(const LayerNormRows& of,
                                     const RowMoments<const float>& moments,
                                     const LayerNormSlopes& slopes) {
  constexpr int kRows = kBytes == 64 ? 4 : 2;  // whose numbers fit in the registers
  int64_t row = 0;
  for (; row + kRows <= of.rows; row += kRows) {
    backward_of<kBytes, kRows, kAdds>(of, moments, slopes, row);
  }
  for (; row < of.rows; ++row) backward_of<kBytes, 1, kAdds>(of, moments, slopes, row);
}

template <int kBytes>
ACCEL_PART_OF_LOOP void backward(const LayerNormRows& of, const RowMoments<const float>& moments,
                                 const LayerNormSlopes& slopes) {
  slopes.dsum != nullptr ? all_backward<kBytes, true>(of, moments, slopes)
                         : all_backward<kBytes, false>(of, moments, slopes);
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
