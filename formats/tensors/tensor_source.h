// Tensors that are read when they are written, so that a file needs the memory of one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/array.h"
#include "core/base/bytes.h"

namespace accel {

struct NamedArray;

struct TensorSource {
  std::string name;
  DType type;
  Shape shape;
  std::function<Array()> read;  ///< of this type and shape

  size_t bytes() const { return static_cast<size_t>(count_of(shape)) * size_of(type); }
};

/// An array that is there already.
TensorSource source_of(const NamedArray& tensor);

/// As write_safetensors() of arrays, in safetensors.h. Reads the tensors one after another.
void write_safetensors(const std::vector<TensorSource>& tensors, const ByteSink& sink);

}  // namespace accel
