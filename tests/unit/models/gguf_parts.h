// Weights of known values for models of llama.cpp's, and what is in such a model.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "models/hf/gguf_model.h"

namespace accel::gguf_parts {

/// `first` and the numbers after it.
inline TensorSource numbered(const std::string& name, const Shape& shape, float first = 0) {
  Array array(DType::kF32, shape);
  float next = first;
  for (float& value : array.mutable_as<float>()) value = next++;
  return {name, DType::kF32, shape, [array] { return array; }};
}

inline std::vector<float> values_of(const TensorSource& source) {
  const Array array = source.read();
  return {array.as<float>().begin(), array.as<float>().end()};
}

/// The value of a field.
template <class T>
T value(const GgufModel& model, const std::string& key) {
  for (const GgufField& field : model.fields) {
    if (field.key == key) return std::get<T>(field.value);
  }
  ADD_FAILURE() << "no " << key;
  return {};
}

}  // namespace accel::gguf_parts
