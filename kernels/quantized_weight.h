// Linear weights in 4 or 8 bits with the bytes of bitsandbytes (Dettmers et al. 2022, 2023).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace accel {

/// NF4: quantiles of a normal distribution. FP4: a sign, two bits of exponent, one of mantissa.
enum class WeightCode { kNf4, kFp4, kInt8 };

/// Elements in row-major order that share a scale in 4 bits.
inline constexpr int64_t kWeightBlock = 64;
/// Scales that share a scale in double quantization.
inline constexpr int64_t kScaleBlock = 256;

/// A weight [rows, columns]. Tensors that the format lacks are undefined.
struct QuantizedWeight {
  WeightCode code;
  int64_t rows, columns;
  /// 4 bits: U8 [ceil(rows * columns / 2)], the first of two in the high bits. Int8: I8 [rows,
  /// columns].
  at::Tensor codes;
  /// Scales, the largest magnitudes: F32 [blocks], U8 with double quantization; int8: F32 [rows].
  at::Tensor abs_max;
  at::Tensor nested_abs_max;  ///< double quantization: F32 [ceil(blocks / kScaleBlock)]
  at::Tensor nested_offset;   ///< double quantization: F32 [1], the mean of the scales

  bool is_double() const { return nested_abs_max.defined(); }
};

/// Zeros of these sizes. Double quantization is of 4 bits only.
QuantizedWeight empty_quantized_weight(WeightCode code, at::IntArrayRef sizes, bool is_double);

/// `values`: [rows, columns] of a floating-point type. Int8 rounds them to float16 first, as
/// bitsandbytes does.
QuantizedWeight quantize_weight(const at::Tensor& values, WeightCode code, bool is_double);

/// [rows, columns].
at::Tensor dequantize_weight(const QuantizedWeight& weight, at::ScalarType type);

/// x [..., columns] times the transposed weight, plus `bias`: [..., rows]. The product is computed
/// in `type`, and the result has the type of x; without `type`, both are those of autocast or x.
/// Gradients flow to x and the bias; the backward pass dequantizes again. Few rows of x in a
/// FewRowsScope are multiplied by the codes, without the dequantized weight in memory.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeight& weight,
                            const at::Tensor& bias, std::optional<at::ScalarType> type);

}  // namespace accel
