// The loops of attend() over float32 in memory.
#pragma once

#include <cstdint>

namespace accel {

/// Products of some queries, one after the other, with each of `keys` keys. Scores are these times
/// `scale`, plus the mask.
struct ScoreRows {
  float* products;
  int64_t count, keys;
  int64_t seen_first, seen_more;  ///< keys that the first query sees, and each further one more
  float scale;
  const float* mask;           ///< null where there is none
  int64_t mask_row, mask_key;  ///< its strides

  /// Keys that one of the queries sees.
  int64_t seen(int64_t row) const {
    const int64_t all = seen_first + row * seen_more;
    return all < keys ? all : keys;
  }
};

/// Of each row the log of the sum of exp(score), `step` apart, and 1 / the sum of its weights.
struct RowSums {
  float* logs;
  int64_t step;
  float* shares;
};

/// Each product becomes its weight, exp(score - the greatest of its row); 0 for keys that are not
/// seen, and where it would be below 2e-37. A row that sees nothing but -inf has weights of zero,
/// the log 0 and the share 1.
void attention_weights_cpu(const ScoreRows& rows, const RowSums& sums);
/// Each product becomes exp(score - log), its weight times its share; logs are `step` apart.
void attention_weights_again_cpu(const ScoreRows& rows, const float* logs, int64_t step);
/// From gradients for the weights of attention_weights_again_cpu() to those for products: weights *
/// (slopes - the sums of their rows) * scale.
void attention_slopes_cpu(const ScoreRows& weights, const float* sums, float* slopes);

/// `count` vectors of `width` numbers, `step` apart.
template <typename Number>
struct VectorRows {
  Number* data;
  int64_t count, width, step;
};

/// Multiplies each vector by a number.
void scale_rows_cpu(const VectorRows<float>& rows, const float* numbers);
/// The sum of a * b for each row.
void dot_rows_cpu(const VectorRows<const float>& a, const VectorRows<const float>& b, float* sums);

}  // namespace accel
