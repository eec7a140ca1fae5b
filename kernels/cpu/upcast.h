// bfloat16 and float16 operators in float32, for processors without instructions for these types.
#pragma once

#include <optional>
#include <tuple>

#include "core/api/batch.h"

namespace accel {

/// Whether the type is bfloat16 or float16.
inline bool has_16_bits(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf;
}

/// Whether products of `type` are faster in float32: bfloat16 without AVX512_BF16, float16 without
/// AVX512_FP16.
bool upcasts(at::ScalarType type);
/// Whether attention gradients of `type` are faster in float32: wherever AMX lacks the type,
/// because ATen computes them by many small products.
bool upcasts_attention_gradients(at::ScalarType type);

/// Converts floating-point tensors to float32; returns others unchanged.
at::Tensor upcast(const at::Tensor& tensor);
std::optional<at::Tensor> upcast(const std::optional<at::Tensor>& tensor);
template <typename Other>
Other upcast(const Other& other) {
  return other;
}

/// Converts to `type`; undefined tensors stay undefined.
at::Tensor downcast(const at::Tensor& tensor, at::ScalarType type);
template <typename... Tensors>
std::tuple<Tensors...> downcast(const std::tuple<Tensors...>& tensors, at::ScalarType type) {
  return std::apply(
      [type](const Tensors&... each) { return std::tuple<Tensors...>(downcast(each, type)...); },
      tensors);
}

/// The result of kOperator for tensors of a 16-bit type, computed in float32 and rounded once at
/// the end. ATen's kernels round alike but sum in another order, so values may differ by one unit
/// in the last place.
template <auto kOperator, typename... In>
auto compute_in_fp32(const at::Tensor& first, const In&... in) {
  return downcast(kOperator(upcast(first), upcast(in)...), first.scalar_type());
}

}  // namespace accel
