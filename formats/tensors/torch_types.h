// PyTorch names of the element types.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/array.h"

namespace accel {

struct TorchType {
  DType type;
  const char* storage;  ///< null for types newer than typed storages
  const char* dtype;
};

constexpr std::array kTorchTypes = {TorchType{DType::kBool, "BoolStorage", "bool"},
                                    TorchType{DType::kU8, "ByteStorage", "uint8"},
                                    TorchType{DType::kI8, "CharStorage", "int8"},
                                    TorchType{DType::kI16, "ShortStorage", "int16"},
                                    TorchType{DType::kU16, nullptr, "uint16"},
                                    TorchType{DType::kF16, "HalfStorage", "float16"},
                                    TorchType{DType::kBF16, "BFloat16Storage", "bfloat16"},
                                    TorchType{DType::kI32, "IntStorage", "int32"},
                                    TorchType{DType::kU32, nullptr, "uint32"},
                                    TorchType{DType::kF32, "FloatStorage", "float32"},
                                    TorchType{DType::kI64, "LongStorage", "int64"},
                                    TorchType{DType::kU64, nullptr, "uint64"},
                                    TorchType{DType::kF64, "DoubleStorage", "float64"}};

inline const TorchType& torch_type(DType type) {
  return *std::find_if(kTorchTypes.begin(), kTorchTypes.end(),
                       [type](const TorchType& t) { return t.type == type; });
}

/// Null for an unsupported name such as "complex64".
inline const TorchType* torch_type_named(std::string_view dtype) {
  const auto found = std::find_if(kTorchTypes.begin(), kTorchTypes.end(),
                                  [dtype](const TorchType& t) { return t.dtype == dtype; });
  return found == kTorchTypes.end() ? nullptr : &*found;
}

}  // namespace accel
