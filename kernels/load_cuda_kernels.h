// Start of the GPU kernels.
#pragma once

#include <string>

#include "core/api/batch.h"

namespace accel {

/// Opens the library of GPU kernels for `device`, makes it the one of this process and registers
/// its norms in place of ATen's for that type of device. Returns "", or why this process computes
/// with ATen's kernels instead: one line. The library is libaccel_cuda.so for CUDA and none for
/// other devices, or the path in ACCEL_CUDA_LIBRARY for any but the CPU. Later calls return the
/// first result. Precedes the threads that compute.
std::string load_cuda_kernels(at::Device device);

}  // namespace accel
