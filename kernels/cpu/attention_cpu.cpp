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

ACCEL_PART_OF_LOOP float greater(float a, float b) {
  return a > b ? a : b;
}

ACCEL_PART_OF_LOOP float greatest(const float* x, int64_t count) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = kNothing;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = greater(x[i + lane], lanes[lane]);
  }
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] = greater(x[i], lanes[lane]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      lanes[lane] = greater(lanes[lane], lanes[lane + half]);
    }
  }
  return lanes[0];
}

/// x[i] = exp(x[i] - shift); returns their sum.
ACCEL_PART_OF_LOOP float exponentials(float* x, int64_t count, float shift) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float e = exp_or_zero(x[i + lane] - shift);
      x[i + lane] = e;
      lanes[lane] += e;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) {
    x[i] = exp_or_zero(x[i] - shift);
    lanes[lane] += x[i];
  }
  return sum_of_lanes(lanes);
}

/// Scales the products and adds the mask.
ACCEL_PART_OF_LOOP void to_scores(const ScoreRows& rows, int64_t row, int64_t count) {
  float* x = rows.products + row * rows.keys;
  const float scale = rows.scale;
  if (rows.mask == nullptr) {
    for (int64_t i = 0; i < count; ++i) x[i] *= scale;
    return;
  }
  const float* mask = rows.mask + row * rows.mask_row;
  if (rows.mask_key == 1) {
    for (int64_t i = 0; i < count; ++i) x[i] = x[i] * scale + mask[i];
  } else {
    for (int64_t i = 0; i < count; ++i) x[i] = x[i] * scale + mask[i * rows.mask_key];
  }
}

ACCEL_PART_OF_LOOP void weights(const ScoreRows& rows, const RowSums& sums) {
  for (int64_t row = 0; row < rows.count; ++row) {
    float* x = rows.products + row * rows.keys;
    const int64_t seen = rows.seen(row);
    to_scores(rows, row, seen);
    const float most = greatest(x, seen);
    const float shift = most == kNothing ? 0.0F : most;
    const float found = exponentials(x, seen, shift);
    for (int64_t i = seen; i < rows.keys; ++i) x[i] = 0.0F;
    const float sum = found == 0.0F ? 1.0F : found;
    sums.shares[row] = 1.0F / sum;
    sums.logs[row * sums.step] = shift + std::log(sum);
  }
}

ACCEL_PART_OF_LOOP void weights_again(const ScoreRows& rows, const float* logs, int64_t step) {
  for (int64_t row = 0; row < rows.count; ++row) {
    float* x = rows.products + row * rows.keys;
    const int64_t seen = rows.seen(row);
    to_scores(rows, row, seen);
    const float log = logs[row * step];
    for (int64_t i = 0; i < seen; ++i) x[i] = exp_or_zero(x[i] - log);
    for (int64_t i = seen; i < rows.keys; ++i) x[i] = 0.0F;
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

ACCEL_PART_OF_LOOP void dots(const VectorRows<const float>& a, const VectorRows<const float>& b,
                             float* sums) {
  for (int64_t row = 0; row < a.count; ++row) {
    sums[row] = sum_of_products(a.data + row * a.step, b.data + row * b.step, a.width);
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(attention_weights_cpu, weights, (const ScoreRows& rows, const RowSums& sums),
                   (rows, sums))
ACCEL_FOR_EACH_CPU(attention_weights_again_cpu, weights_again,
                   (const ScoreRows& rows, const float* logs, int64_t step), (rows, logs, step))
ACCEL_FOR_EACH_CPU(attention_slopes_cpu, slopes_of,
                   (const ScoreRows& weights, const float* sums, float* slopes),
                   (weights, sums, slopes))
ACCEL_FOR_EACH_CPU(scale_rows_cpu, scale, (const VectorRows<float>& rows, const float* numbers),
                   (rows, numbers))
ACCEL_FOR_EACH_CPU(dot_rows_cpu, dots,
                   (const VectorRows<const float>& a, const VectorRows<const float>& b,
                    float* sums),
                   (a, b, sums))

}  // namespace accel
