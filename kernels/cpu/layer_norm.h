// Inner loops of LayerNorm, over contiguous memory.
#pragma once

#include <cstdint>

namespace accel {

/// `rows` rows of `width` numbers, with a weight and a bias of one row.
struct LayerNormRows {
  const float* x;
  const float* branch;         ///< added to x; null: none
  const float *weight, *bias;  ///< bias: null: none
  int64_t rows, width;
  float eps;
};

/// Means and 1 / deviation of rows.
template <typename Number>
struct RowMoments {
  Number *means, *scales;
};

/// sum = x + branch, or nothing without a branch; y[r, i] = (sum[r, i] - means[r]) scales[r]
/// weight[i] + bias[i], with scales[r] = 1 / sqrt(variance of the row + eps).
void layer_norm_cpu(const LayerNormRows& of, float* sum, float* y,
                    const RowMoments<float>& moments);

struct LayerNormSlopes {
  const float* dy;
  const float* dsum;  ///< another gradient of the sum; null: none
  float* dx;
  float *weight_sums, *bias_sums;  ///< the rows' gradients of weight and bias are added to these
};
/// `of`: x is the sum, without a branch. dx: the gradient of the sum.
void layer_norm_backward_cpu(const LayerNormRows& of, const RowMoments<const float>& moments,
                             const LayerNormSlopes& slopes);

}  // namespace accel
