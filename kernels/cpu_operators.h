// CPU overrides: kernels of this folder registered in place of ATen's, so that every model uses
// them.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/ScalarType.h>
#include <c10/util/FunctionRef.h>

#include <string>

#include "kernels/choice.h"

namespace torch {
class Library;
}

namespace accel {

/// Sets the kernels of all threads of the process; initially the reference kernels. The first call
/// with kFused overrides ATen's matrix products, attention and convolutions on the CPU by
/// kernels/cpu/upcast.h, kernels/attention.h and kernels/convolution.h, for the arguments that
/// these support, in threads whose kernels() are kFused.
void use_kernels(Kernels kernels);

/// use_kernels() and set_mkl_instructions(), then MKL's first vector function on one thread: its
/// detection of the processor is not thread-safe, and a thread that reads it too early computes
/// with relative errors of 3e-4. Must precede any computation.
void initialize_kernels(Kernels kernels, MklInstructions instructions);

/// Calls `stub` to register kernels of `key` in place of ATen's for the life of the process,
/// without PyTorch's warning.
torch::Library& register_overrides(c10::DispatchKey key,
                                   c10::function_ref<void(torch::Library& aten)> stub);

/// Calls `stub` to register CPU kernels in place of ATen's for the life of the process, without
/// PyTorch's warning.
torch::Library& register_cpu_overrides(void (*stub)(torch::Library& aten));

/// Whether the fused kernels compute an ATen operator, such as "aten::mm", in float32 for tensors
/// of `type`.
bool is_computed_wide(const std::string& name, at::ScalarType type);

}  // namespace accel
