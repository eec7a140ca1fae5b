// The kernels of this folder that stand in for ATen's own, so that every model has them.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace torch {
class Library;
}

namespace accel {

/// Lets `stand_in` enter kernels for the CPU that take the place of ATen's, without the warning
/// that PyTorch has for that. They stay for the process's life.
torch::Library& put_before_aten(void (*stand_in)(torch::Library& aten));

/// From now on ATen's matrix products, attention and convolutions on the CPU are those of
/// kernels/widening.h, kernels/attention.h and kernels/convolution.h for what these take, in
/// threads of which kernels() are the fused ones. Once for a process; more calls do nothing.
void stand_in_for_aten();

/// Whether an operator of ATen's, like "aten::mm", is then computed in float32 for tensors of
/// `type`.
bool is_computed_wide(const std::string& name, at::ScalarType type);

}  // namespace accel
