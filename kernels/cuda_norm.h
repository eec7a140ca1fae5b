// LayerNorm and RMSNorm on GPUs.
#pragma once

#include <c10/core/DeviceType.h>

namespace accel {

/// Overrides native_layer_norm and _fused_rms_norm of ATen, with their backward passes, for devices
/// of `type`: by cuda_kernels() for contiguous float32 or bfloat16 inputs with weights of the same
/// type, normalized over the last dimensions; else, and without kernels, by what was registered
/// before. Sums are in float32, so results are within one rounding of the type of ATen's.
/// Deterministic, without atomic operations.
void register_cuda_norms(c10::DeviceType type);

}  // namespace accel
