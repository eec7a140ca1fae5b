#include "kernels/cpu/loops.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// Flushes tiny results to zero: products with denormals are slow.
ACCEL_PART_OF_LOOP float exp_or_zero(float x) {
  return x < -85.0F ? 0.0F : vector_exp(x);
}

struct Greater {
  template <typename T>
  ACCEL_PART_OF_LOOP void operator()(T& most, const T& x) const {
    most = x > most ? x : most;
  }
};

/// What a row's products become: those of visible keys, and behind them kNothing up to a multiple
/// of kLanes or the last key.
struct Scores {
  float* x;
  int64_t seen, count;  ///< visible keys, and with those that are kNothing
};

/// Scales the products and adds the mask.
ACCEL_PART_OF_LOOP Scores to_scores(const ScoreRows& rows, int64_t row) {
  float* x = rows.products + row * rows.keys;
  const int64_t seen = rows.seen(row);
  const float scale = rows.scale;
  if (rows.mask == nullptr) {
    for (int64_t i = 0; i < seen; ++i) x[i] *= scale;
  } else if (rows.mask_key == 1) {
    const float* mask = rows.mask + row * rows.mask_row;
    for (int64_t i = 0; i < seen; ++i) x[i] = x[i] * scale + mask[i];
  } else {
    const float* mask = rows.mask + row * rows.mask_row;
    for (int64_t i = 0; i < seen; ++i) x[i] = x[i] * scale + mask[i * rows.mask_key];
  }
  const int64_t whole = (seen + kLanes - 1) / kLanes * kLanes;
  const int64_t count = whole < rows.keys ? whole : rows.keys;
  for (int64_t i = seen; i < count; ++i) x[i] = kNothing;
  return {x, seen, count};
}

/// x[i] = exp(x[i] - shift), and 0 for keys that are not visible, whatever the shift is.
ACCEL_PART_OF_LOOP void exponentials(const Scores& of, float shift, int64_t keys) {
  float* x = of.x;
  int64_t i = 0;
  for (; i + kLanes <= of.count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) x[i + lane] = exp_or_zero(x[i + lane] - shift);
  }
  for (; i < of.count; ++i) x[i] = exp_or_zero(x[i] - shift);
  for (i = of.seen; i < keys; ++i) x[i] = 0.0F;
}

template <int kBytes>
ACCEL_PART_OF_LOOP void weights(const ScoreRows& rows, const RowSums& sums) {
  for (int64_t row = 0; row < rows.count; ++row) {
    const Scores scores = to_scores(rows, row);
    const float most = over_lanes<kBytes>(scores.x, scores.count, kNothing, Greater());
    const float shift = most == kNothing ? 0.0F : most;
    exponentials(scores, shift, rows.keys);
    const float found = over_lanes<kBytes>(scores.x, scores.count, 0.0F, Sum());
    const float sum = found == 0.0F ? 1.0F : found;
    sums.shares[row] = 1.0F / sum;
    sums.logs[row * sums.step] = shift + std::log(sum);
  }
}

ACCEL_PART_OF_LOOP void weights_again(const ScoreRows& rows, const float* logs, int64_t step) {
  for (int64_t row = 0; row < rows.count; ++row) {
    exponentials(to_scores(rows, row), logs[row * step], rows.keys);
  }
}

ACCEL_PART_OF_LOOP void slopes_of(const ScoreRows& weights, const float* sums, float* slopes) {
  for (int64_t row = 0; row < weights.count; ++row) {
    const float* weight = weights.products + row * weights.keys;
    float* slope = slopes + row * weights.keys;
    const float sum = sums[row], scale = weights.scale;
    for (int64_t i = 0; i < weights.keys; ++i) slope[i] = weight[i] * (slope[i] - sum) * scale;
  }
}

ACCEL_PART_OF_LOOP void scale(const VectorRows<float>& rows, const float* numbers) {
  for (int64_t row = 0; row < rows.count; ++row) {
    float* x = rows.data + row * rows.step;
    const float number = numbers[row];
    for (int64_t i = 0; i < rows.width; ++i) x[i] *= number;
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void dots(const VectorRows<const float>& a, const VectorRows<const float>& b,
                             float* sums) {
  for (int64_t row = 0; row < a.count; ++row) {
    sums[row] = sum_of_products<kBytes>(a.data + row * a.step, b.data + row * b.step, a.width);
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU_OF(attention_weights_cpu, (weights<64>, weights<32>, weights<16>),
                      (const ScoreRows& rows, const RowSums& sums), (rows, sums))
ACCEL_FOR_EACH_CPU(attention_weights_again_cpu, weights_again,
                   (const ScoreRows& rows, const float* logs, int64_t step), (rows, logs, step))
ACCEL_FOR_EACH_CPU(attention_slopes_cpu, slopes_of,
                   (const ScoreRows& weights, const float* sums, float* slopes),
                   (weights, sums, slopes))
ACCEL_FOR_EACH_CPU(scale_rows_cpu, scale, (const VectorRows<float>& rows, const float* numbers),
                   (rows, numbers))
ACCEL_FOR_EACH_CPU_OF(dot_rows_cpu, (dots<64>, dots<32>, dots<16>),
                      (const VectorRows<const float>& a, const VectorRows<const float>& b,
                       float* sums),
                      (a, b, sums))

}  // namespace accel
