// Tensors as the arrays that byte formats know, and back.
#pragma once

#include <string>

#include "core/array.h"
#include "core/batch.h"

namespace accel {

/// Shares the memory of a contiguous tensor on the host, else copies. Throws std::invalid_argument
/// naming `name` for an undefined tensor and for a type that no file of ours holds.
Array array_of(const at::Tensor& tensor, const std::string& name);

/// Shares the memory of an aligned array, else copies.
at::Tensor tensor_of(const Array& array);

/// A deep copy on the host.
at::Tensor host_copy(const at::Tensor& tensor);

}  // namespace accel
