#include "kernels/cuda/table.h"

#include "kernels/cuda/block.h"
#include "kernels/cuda/kernels.h"

namespace accel::cuda {
namespace {

#ifdef __CUDACC__

/// A kernel that asks whether this library has code for a GPU.
struct Probe {
  static constexpr int kThreads = 32;
  struct Args {
    int none;
  };
  template <class Block>
  ACCEL_ON_DEVICE static void run(Block& /*block*/, const Args& /*args*/) {}
};

const char* error_text(int32_t code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

const char* problem(int32_t index) {
  cudaError_t code = cudaSetDevice(index);
  cudaFuncAttributes found;
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&found, run_kernel<Probe>);
  cudaGetLastError();  // the error is reported here, not by the next call of the runtime
  return code == cudaSuccess ? "" : cudaGetErrorString(code);
}

int32_t allocate(int64_t bytes, void** memory) {
  return cudaMalloc(memory, static_cast<size_t>(bytes));
}

int32_t release(void* memory) {
  return cudaFree(memory);
}

int32_t copy(void* to, const void* from, int64_t bytes) {
  const cudaError_t code = cudaDeviceSynchronize();
  if (code != cudaSuccess) return code;
  return cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault);
}

#else

const char* error_text(int32_t /*code*/) {
  return "";
}

const char* problem(int32_t /*index*/) {
  return "";
}

int32_t allocate(int64_t bytes, void** memory) {
  *memory = ::operator new(static_cast<size_t>(bytes));
  return 0;
}

int32_t release(void* memory) {
  ::operator delete(memory);
  return 0;
}

int32_t copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  return 0;
}

#endif

}  // namespace
}  // namespace accel::cuda

extern "C" __attribute__((visibility("default"))) const accel::CudaTable* accel_cuda_table() {
  using namespace accel::cuda;
  static const accel::CudaTable table = {.version = accel::kCudaTableVersion,
                                         .problem = problem,
                                         .error_text = error_text,
                                         .cross_entropy = cross_entropy,
                                         .cross_entropy_backward = cross_entropy_backward,
                                         .norm = norm,
                                         .norm_backward = norm_backward,
                                         .norm_workspace = norm_workspace,
                                         .elementwise = elementwise,
                                         .elementwise_backward = elementwise_backward,
                                         .adam = adam,
                                         .allocate = allocate,
                                         .release = release,
                                         .copy = copy};
  return &table;
}
