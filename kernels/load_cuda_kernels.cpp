#include "kernels/load_cuda_kernels.h"

#include "core/base/environment.h"
#include "kernels/cuda_library.h"
#include "kernels/cuda_norm.h"

namespace accel {
namespace {

/// "": none.
std::string library_for(at::Device device) {
  if (device.is_cpu()) return "";
  const std::string fallback = device.is_cuda() ? "libaccel_cuda.so" : "";
  return environment_variable("ACCEL_CUDA_LIBRARY").value_or(fallback);
}

std::string load(at::Device device) {
  const std::string name = library_for(device);
  if (name.empty()) return "";
  const CudaLibrary library = open_cuda_library(name, device);
  if (!library.table) return library.problem;
  use_cuda_library(device.type(), library);
  register_cuda_norms(device.type());
  return "";
}

}  // namespace

std::string load_cuda_kernels(at::Device device) {
  static const std::string problem = load(device);
  return problem;
}

}  // namespace accel
