// Graphs of CUDA, in a library that only processes with GPUs load: libaccel_cuda_graph.so.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/device_graph.h"

namespace accel {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work) override {
    c10::cuda::device_synchronize();
    const c10::cuda::CUDAStreamGuard guard(stream_);
    // Relaxed: other threads pin memory of later batches meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
    work();
    graph_.capture_end();
  }
  void launch(const std::function<void()>& /*work*/) override { graph_.replay(); }

 private:
  c10::cuda::CUDAStream stream_ = c10::cuda::getStreamFromPool();
  at::cuda::CUDAGraph graph_;
};

}  // namespace
}  // namespace accel

extern "C" __attribute__((visibility("default"))) void accel_device_graph(
    std::unique_ptr<accel::DeviceGraph>& out) {
  out = std::make_unique<accel::CudaGraph>();
}
