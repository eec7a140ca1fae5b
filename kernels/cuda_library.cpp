#include "kernels/cuda_library.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "core/base/shared_library.h"
#include "core/base/text.h"
#include "kernels/choice.h"

namespace accel {
namespace {

/// The library that this process uses, and the type of its devices.
struct Loaded {
  at::DeviceType type;
  CudaLibrary library;
};

Loaded& loaded() {
  static Loaded of_process = {at::kCPU, {}};
  return of_process;
}

}  // namespace

CudaLibrary open_cuda_library(const std::string& name, at::Device device) {
  SharedLibrary library(name);
  CudaTableFunction* table_of = nullptr;
  if (!library.find(kCudaTableSymbol, table_of)) return {nullptr, library.error()};
  const CudaTable* table = table_of();
  if (table->version != kCudaTableVersion) {
    return {nullptr, text("'{}' has version {} of the kernels' interface instead of {}", name,
                          table->version, kCudaTableVersion)};
  }
  const std::string problem = table->problem(device.index());
  if (!problem.empty()) {
    return {nullptr, text("'{}' on GPU {}: {}", name, static_cast<int>(device.index()), problem)};
  }
  return {table, ""};
}

void use_cuda_library(at::DeviceType type, const CudaLibrary& library) {
  loaded() = {type, library};
}

const CudaTable* cuda_kernels(at::Device device) {
  const bool is_for_it = loaded().type == device.type() && kernels() == Kernels::kFused;
  return is_for_it ? loaded().library.table : nullptr;
}

bool is_for_cuda_kernels(const at::Tensor& tensor) {
  return (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16) &&
         tensor.is_contiguous();
}

CudaType cuda_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? CudaType::kFloat : CudaType::kBFloat16;
}

void* current_cuda_stream(at::Device device) {
  if (!device.is_cuda()) return nullptr;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

void check_cuda_launch(at::Device device, int32_t code) {
  if (code == 0) return;
  TORCH_CHECK(false, "a kernel of libaccel_cuda.so cannot start on ", device.str(), ": ",
              loaded().library.table->error_text(code));
}

}  // namespace accel
