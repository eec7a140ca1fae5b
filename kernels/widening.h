// Operators of bfloat16 and float16 on processors that have no instructions for these.
#pragma once

#include <optional>
#include <tuple>

#include "core/batch.h"

namespace accel {

/// Whether it is one of these.
inline bool has_16_bits(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf;
}

/// Whether this processor is faster at products of `type` in float32: of bfloat16 without
/// AVX512_BF16, of float16 without AVX512_FP16.
bool widens(at::ScalarType type);
/// The same of attention's gradients, which ATen computes by many small products: wherever there
/// are no instructions for tiles of `type` (AMX).
bool widens_attention_gradients(at::ScalarType type);

/// Tensors of floating point in float32; everything else as it is.
at::Tensor wide(const at::Tensor& tensor);
std::optional<at::Tensor> wide(const std::optional<at::Tensor>& tensor);
template <typename Other>
Other wide(const Other& other) {
  return other;
}

/// The other way; undefined tensors stay so.
at::Tensor narrow(const at::Tensor& tensor, at::ScalarType type);
template <typename... Tensors>
std::tuple<Tensors...> narrow(const std::tuple<Tensors...>& tensors, at::ScalarType type) {
  return std::apply(
      [type](const Tensors&... each) { return std::tuple<Tensors...>(narrow(each, type)...); },
      tensors);
}

/// What the function kOperator gives for tensors of the first one's 16-bit type, computed in
/// float32 and rounded once at its end, as ATen's kernels for that type do: they differ by the
/// order of their sums, so that a number may be rounded to a neighbour.
template <auto kOperator, typename... In>
auto computed_wide(const at::Tensor& first, const In&... in) {
  return narrow(kOperator(wide(first), wide(in)...), first.scalar_type());
}

}  // namespace accel
