// Tensors of programs exported from Python: modules that hold them, and element types.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/array.h"

namespace accel {

class TensorTree final : public torch::nn::Module {
 public:
  /// Registers a tensor under its dotted name, "layers.0.weight", and creates the modules above it.
  /// Tensors added in PyTorch's order are listed in that order. Throws FormatError for a duplicate
  /// or invalid name.
  void add_parameter(const std::string& name, const at::Tensor& tensor);
  void add_buffer(const std::string& name, const at::Tensor& tensor);
  /// Is moved with the module but not listed.
  void add_constant(const at::Tensor& tensor) { constants_.push_back(tensor); }

  using torch::nn::Module::to;
  void to(at::Device device, bool non_blocking = false) override;

 private:
  /// The module of a tensor's name; sets `last` to the last component.
  TensorTree& owner_of(const std::string& name, std::string& last);

  std::vector<at::Tensor> constants_;
};

/// libtorch's type; readers of exported models admit only common types.
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
