// The GPU kernels of libaccel_cuda.so, loaded at run time.
#pragma once

#include <string>

#include "core/api/batch.h"
#include "kernels/cuda/table.h"

namespace accel {

/// A library's kernels, or why they cannot be used: a line of text.
struct CudaLibrary {
  const CudaTable* table = nullptr;
  std::string problem;
};

/// Loads a library, a path or a name for the loader, for a device.
CudaLibrary open_cuda_library(const std::string& name, at::Device device);

/// Makes the library the one of this process, for devices of a type. Precedes the threads that
/// compute.
void use_cuda_library(at::DeviceType type, const CudaLibrary& library);

/// The kernels for tensors on `device`: null without a library for it, or while kernels() is not
/// kFused.
const CudaTable* cuda_kernels(at::Device device);

/// float32 or bfloat16, contiguous.
bool is_for_cuda_kernels(const at::Tensor& tensor);
CudaType cuda_type(const at::Tensor& tensor);

/// Calls kernel(arguments, stream) on the current stream of the device. Throws c10::Error when it
/// cannot be launched.
template <class Arguments>
void run_cuda_kernel(at::Device device, int32_t (*kernel)(const Arguments*, void*),
                     const Arguments& arguments);

/// The cudaStream_t that is current for the device; null for other devices than CUDA's.
void* current_cuda_stream(at::Device device);
/// Throws c10::Error for a code of a launch that failed.
void check_cuda_launch(at::Device device, int32_t code);

template <class Arguments>
void run_cuda_kernel(at::Device device, int32_t (*kernel)(const Arguments*, void*),
                     const Arguments& arguments) {
  check_cuda_launch(device, kernel(&arguments, current_cuda_stream(device)));
}

}  // namespace accel
