// Matrices in fp8: scales, casts and products. Computed by at::_scaled_mm on CUDA, and emulated
// elsewhere with products of the same values, accumulated in float32.
#pragma once

#include <ATen/core/Tensor.h>

namespace accel {

/// Multiple of which the sizes of an fp8 product are.
constexpr int64_t kFp8Multiple = 16;

/// values * inverse_scale approximates the matrix.
struct Fp8Matrix {
  at::Tensor values;         ///< [rows, columns], float8_e4m3fn or float8_e5m2, contiguous
  at::Tensor inverse_scale;  ///< float32, [] for the matrix, or [rows, 1]
};

/// The largest finite value: 448 for float8_e4m3fn, 57344 for float8_e5m2.
double fp8_max(at::ScalarType type);

/// The scale, float32, that maps `amax` to fp8_max(), computed in float64: torchao's, of an amax of
/// at least 1e-12. `to_power_of_2` rounds it down. 1 for an amax that is not finite.
at::Tensor fp8_scale(const at::Tensor& amax, at::ScalarType type, bool to_power_of_2);

/// x * scale, saturated to +-fp8_max(). Values of x that are not finite become NaN, so that an
/// overflow reaches the loss, as values of at::Tensor::to() do not.
at::Tensor cast_to_fp8(const at::Tensor& x, const at::Tensor& scale, at::ScalarType type);

/// `x`, [rows, columns], with one scale, or one for each row.
Fp8Matrix to_fp8(const at::Tensor& x, at::ScalarType type, bool by_row, bool to_power_of_2);

/// The transpose of a matrix with one scale.
Fp8Matrix transposed(const Fp8Matrix& matrix);

/// With zero columns up to a multiple of kFp8Multiple.
Fp8Matrix with_padded_columns(const Fp8Matrix& matrix);

/// The product of `a` and the transpose of `b`, [a's rows, b's rows], of the type `type`. Columns
/// and b's rows are multiples of kFp8Multiple, and at most one of the two is float8_e5m2; else
/// throws std::logic_error. `fast` permits the faster accumulation of CUDA.
at::Tensor fp8_product(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast);

}  // namespace accel
