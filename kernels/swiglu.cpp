#include "kernels/swiglu.h"

#include <ATen/ops/silu.h>

#include "kernels/cuda_activation.h"

namespace accel {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const auto fused = cuda_activation(CudaActivation::kSwiGlu, gate, up);
  return fused ? *fused : at::silu(gate).mul(up);
}

}  // namespace accel
