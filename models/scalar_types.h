// Element types as files and tensors name them.
#pragma once

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/array.h"

namespace accel {

/// libtorch's name for a type that both have: all that the readers of exported models let through.
inline at::ScalarType scalar_type_of(DType type) {
  constexpr std::pair<DType, at::ScalarType> kTypes[] = {
      {DType::kU8, at::kByte},      {DType::kI8, at::kChar},    {DType::kI16, at::kShort},
      {DType::kI32, at::kInt},      {DType::kI64, at::kLong},   {DType::kF16, at::kHalf},
      {DType::kF32, at::kFloat},    {DType::kF64, at::kDouble}, {DType::kBool, at::kBool},
      {DType::kBF16, at::kBFloat16}};
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [type](const auto& pair) { return pair.first == type; });
  return found->second;
}

}  // namespace accel
