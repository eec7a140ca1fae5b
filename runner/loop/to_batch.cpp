#include "runner/loop/to_batch.h"

#include <ATen/ops/from_blob.h>

#include <stdexcept>

namespace accel {
namespace {

at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
    default:
      throw std::logic_error(std::string("no tensor holds ") + name_of(type));
  }
}

at::Tensor to_tensor(const Array& array) {
  if (array.empty()) return {};
  auto keep = array.owner();
  // from_blob wants a mutable pointer; batches are the loader's own memory and not shared.
  void* data = const_cast<std::byte*>(array.data());
  return at::from_blob(
      data, array.shape(), [keep](void*) {}, at::TensorOptions(scalar_type(array.type())));
}

/// Through pinned memory, so that the copy does not keep the host waiting.
at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  if (device.is_cpu() || !tensor.defined()) return tensor;
  return tensor.pin_memory().to(device, tensor.scalar_type(), true);
}

}  // namespace

Batch to_batch(const HostBatch& host, at::Device device) {
  const auto there = [&](const Array& array) { return moved(to_tensor(array), device); };
  return {there(host.inputs), there(host.targets), host.ids, there(host.lengths),
          there(host.segments)};
}

std::vector<Batch> to_batches(const Window& window, at::Device device) {
  std::vector<Batch> batches;
  for (const HostBatch& host : window.micro_batches) batches.push_back(to_batch(host, device));
  return batches;
}

}  // namespace accel
