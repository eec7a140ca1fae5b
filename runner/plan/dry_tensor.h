// Tensors of a DryScope.
#pragma once

#include <ATen/core/Tensor.h>

namespace accel {

/// A CPU tensor of zeros that take no memory as long as nobody writes to them. The scope's
/// meter counts what they would take, for as long as they would. Only within a DryScope.
at::Tensor dry_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// Of the layout of `like`.
at::Tensor dry_like(const at::Tensor& like);

/// Contiguous.
at::Tensor dry_empty(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace accel
