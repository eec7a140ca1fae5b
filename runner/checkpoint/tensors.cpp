#include "runner/checkpoint/tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include <ATen/ops/from_blob.h>

namespace accel {
namespace {

constexpr std::array<std::pair<at::ScalarType, DType>, 13> kTypes = {{
    {at::ScalarType::Bool, DType::kBool},
    {at::ScalarType::Byte, DType::kU8},
    {at::ScalarType::Char, DType::kI8},
    {at::ScalarType::Short, DType::kI16},
    {at::ScalarType::UInt16, DType::kU16},
    {at::ScalarType::Half, DType::kF16},
    {at::ScalarType::BFloat16, DType::kBF16},
    {at::ScalarType::Int, DType::kI32},
    {at::ScalarType::UInt32, DType::kU32},
    {at::ScalarType::Float, DType::kF32},
    {at::ScalarType::Long, DType::kI64},
    {at::ScalarType::UInt64, DType::kU64},
    {at::ScalarType::Double, DType::kF64},
}};

Array aligned(const Array& array) {
  if (reinterpret_cast<uintptr_t>(array.data()) % size_of(array.type()) == 0) return array;
  Array copy(array.type(), array.shape());
  std::memcpy(copy.mutable_data(), array.data(), array.bytes());
  return copy;
}

}  // namespace

Array array_of(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) throw std::invalid_argument("the tensor '" + name + "' is undefined");
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& pair) {
    return pair.first == tensor.scalar_type();
  });
  if (type == kTypes.end()) {
    throw std::invalid_argument("the tensor '" + name + "' has a type that no file holds");
  }
  const auto plain = std::make_shared<at::Tensor>(tensor.detach().cpu().contiguous());
  return {type->second, plain->sizes().vec(), static_cast<const std::byte*>(plain->data_ptr()),
          plain};
}

at::Tensor tensor_of(const Array& array) {
  const auto held = std::make_shared<Array>(aligned(array));
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const auto& pair) { return pair.second == held->type(); });
  return at::from_blob(
      const_cast<std::byte*>(held->data()), held->shape(), [held](void*) {},
      at::TensorOptions().dtype(type->first));
}

at::Tensor host_copy(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::Tensor plain = tensor.detach();
  return plain.is_cpu() ? plain.clone() : plain.cpu();
}

}  // namespace accel
