// Layerwise casting: linear weights in a narrow type, cast to the type of each product.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace accel {

/// A copy of `values` in `type`, bfloat16 or float8_e4m3fn, whose bits are bytes (U8), the type of
/// files and checkpoints. Throws Error (kRecipe), naming the layer, for values beyond the type.
at::Tensor cast_weight(const at::Tensor& values, at::ScalarType type, const std::string& layer);

/// Zeros of these sizes.
at::Tensor empty_cast_weight(at::IntArrayRef sizes, at::ScalarType type);

/// The values of a cast_weight() as `to`.
at::Tensor uncast_weight(const at::Tensor& stored, at::ScalarType to);

/// As quantized_linear(): x [..., columns] times the transposed weight, plus `bias`, with the
/// weight cast in the forward and again in the backward pass.
at::Tensor cast_linear(const at::Tensor& x, const at::Tensor& stored, const at::Tensor& bias,
                       std::optional<at::ScalarType> type);

}  // namespace accel
