// Inner loops of the CPU kernels, over contiguous memory. Each `NAME_cpu.cpp` is compiled for
// AVX-512, AVX2 and baseline x86-64.
#pragma once

#include <cstdint>

namespace accel {

/// Scalar coefficients of an Adam step.
struct AdamFactors {
  float decay = 1;         ///< factor of the parameter (AdamW)
  float weight_decay = 0;  ///< L2 penalty added to the gradient (Adam)
  float new_share = 0;     ///< 1 - beta1
  float beta2 = 0;
  float new_square_share = 0;  ///< 1 - beta2
  float root_correction = 1;   ///< sqrt(1 - beta2^step)
  float eps = 0;
  float step_size = 0;  ///< lr / (1 - beta1^step)
};

/// The arrays of a tensor; they do not overlap.
struct AdamPlace {
  float* parameter;
  const float* gradient;
  float* average;  ///< first moment
  float* square;   ///< second moment
};

/// Updates `count` elements. Rounds as ATen's vectorized _fused_adamw_, except for a tensor's last
/// elements, which ATen treats separately. Requires FMA.
void adam_cpu(const AdamFactors& by, const AdamPlace& at, int64_t count);

/// Products of `count` consecutive queries with `keys` keys. Scores are products * `scale` + mask.
struct ScoreRows {
  float* products;
  int64_t count, keys;
  int64_t seen_first, seen_more;  ///< keys visible to the first query, increment per query
  float scale;
  const float* mask;           ///< null: no mask
  int64_t mask_row, mask_key;  ///< strides of the mask

  /// Number of keys visible to a query.
  int64_t seen(int64_t row) const {
    const int64_t all = seen_first + row * seen_more;
    return all < keys ? all : keys;
  }
};

/// For each row the log-sum-exp of the scores, with stride `step`, and 1 / the sum of its weights.
struct RowSums {
  float* logs;
  int64_t step;
  float* shares;
};

/// Replaces each product by its unnormalized softmax weight, exp(score - row maximum); 0 for masked
/// keys and for values below 2e-37. A row of -inf scores gets weights 0, log 0 and share 1.
void attention_weights_cpu(const ScoreRows& rows, const RowSums& sums);
/// Replaces each product by its softmax weight exp(score - log); `step` is the stride of `logs`.
void attention_weights_again_cpu(const ScoreRows& rows, const float* logs, int64_t step);
/// Softmax gradient: slopes = weights * (slopes - sums of their rows) * scale, for the weights of
/// attention_weights_again_cpu().
void attention_slopes_cpu(const ScoreRows& weights, const float* sums, float* slopes);

/// `count` vectors of `width` elements with stride `step`.
template <typename Number>
struct VectorRows {
  Number* data;
  int64_t count, width, step;
};

/// Multiplies each vector by a scalar.
void scale_rows_cpu(const VectorRows<float>& rows, const float* numbers);
/// Dot products of corresponding rows.
void dot_rows_cpu(const VectorRows<const float>& a, const VectorRows<const float>& b, float* sums);

/// Adds x[0, i] + x[1, i] + ... to sums[i].
void add_rows_cpu(const VectorRows<const float>& rows, float* sums);

/// log(sum of e^x[i]) of at least one number. NaN if an x is NaN or the maximum is not finite.
void log_sum_exp_cpu(const float* x, int64_t count, float* sum);

/// dx[i] = scale * e^(x[i] - log_sum): the scaled softmax of x, where `log_sum` comes from
/// log_sum_exp_cpu().
void scaled_softmax_cpu(const float* x, float log_sum, float scale, float* dx, int64_t count);

/// y[i] = gate[i] sigmoid(gate[i]) up[i]; relative error below 5e-7.
void swiglu_cpu(const float* gate, const float* up, float* y, int64_t count);
/// The same for bfloat16, rounded to nearest.
void swiglu_cpu(const uint16_t* gate, const uint16_t* up, uint16_t* y, int64_t count);
/// Gradients of y, gate and up, and the inputs.
template <typename Number>
struct SwigluSlopes {
  const Number *dy, *gate, *up;
  Number *dgate, *dup;
};
void swiglu_backward_cpu(const SwigluSlopes<float>& of, int64_t count);
void swiglu_backward_cpu(const SwigluSlopes<uint16_t>& of, int64_t count);

/// `rows` rows of `width` numbers, and a weight of one row.
struct RmsNormRows {
  const float *x, *weight;
  int64_t rows, width;
  float eps;
};
/// scales[r] = 1 / sqrt(mean of x[r]^2 + eps), y[r, i] = x[r, i] scales[r] weight[i].
void rms_norm_cpu(const RmsNormRows& of, float* y, float* scales);
/// Gradients of y and x.
struct RmsNormSlopes {
  const float* dy;
  float *dx, *weight_sums;  ///< the rows' gradient of the weight is added to weight_sums
};
/// `scales`: of rms_norm_cpu().
void rms_norm_backward_cpu(const RmsNormRows& of, const float* scales, const RmsNormSlopes& slopes);

/// Cosines and sines of a position, of which the first half turns the first elements of pairs, and
/// the width of a head.
struct PairRow {
  const float *cosines, *sines;
  int64_t half, width;
};
/// Rotates elements i and i + half of a head, and copies those behind 2 half. Rounds each product.
void rotate_pairs_cpu(const PairRow& of, const float* x, float* y);
void rotate_pairs_backward_cpu(const PairRow& of, const float* dy, float* dx);

enum class ConvolutionPass { kForward, kBackward };

/// Sizes of images and of the windows that slide over them, rows before columns. A window has one
/// value per channel and position; positions outside the image are zero.
struct ImageWindows {
  int64_t channels;
  int64_t in[2];       ///< of an image
  int64_t window[2];   ///< of a window
  int64_t stride[2];   ///< between windows
  int64_t padding[2];  ///< before the first row and column
  int64_t out[2];      ///< number of windows

  int64_t image() const { return channels * in[0] * in[1]; }
  int64_t positions() const { return out[0] * out[1]; }
  int64_t numbers() const { return channels * window[0] * window[1]; }
};

/// im2col: columns [positions, channels, window] of one image.
void gather_windows_cpu(const float* image, const ImageWindows& sizes, float* columns);
/// The same for 16-bit elements whose zero has all bits clear.
void gather_windows_cpu(const uint16_t* image, const ImageWindows& sizes, uint16_t* columns);
/// col2im: adds each element of the columns to its pixel.
void scatter_windows_cpu(const float* columns, const ImageWindows& sizes, float* image);

/// Rows of window positions.
struct WindowRows {
  int64_t begin, end;
};

/// im2col of one image: columns [channels, window, rows, out[1]].
void gather_rows_cpu(const float* image, const ImageWindows& sizes, WindowRows rows,
                     float* columns);
/// col2im of gather_rows_cpu(): adds each element to its pixel.
void scatter_rows_cpu(const float* columns, const ImageWindows& sizes, WindowRows rows,
                      float* image);

/// Sizes of one plane and of its windows, rows first.
struct PoolPlane {
  int64_t in[2], out[2];
  int64_t window, stride, padding;
};

/// y [out]: the maximum of each window, NaN if it contains one; places [out]: its index in x [in],
/// the first of equal ones.
void max_pool_cpu(const float* x, const PoolPlane& plane, float* y, int32_t* places);

/// The sum of x[i]^2, within 1e-6 relative error: float32 within blocks of 4096, float64 across
/// blocks.
void sum_of_squares_cpu(const float* x, int64_t count, double* sum);

}  // namespace accel
