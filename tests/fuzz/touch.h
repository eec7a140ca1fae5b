// Reads every byte of what a reader gave out, so that a view outside its file shows.
#pragma once

#include "formats/tensors/pickle.h"

namespace accel {

inline void touch(ByteSpan bytes) {
  volatile unsigned sum = 0;
  for (const std::byte b : bytes) sum = sum + std::to_integer<unsigned>(b);
}

inline void touch(const Value& value) {
  if (const auto* array = value.as<Array>()) {
    touch(ByteSpan(array->data(), array->bytes()));
  } else if (const auto* list = value.as<Value::List>()) {
    for (const Value& item : list->items) touch(item);
  } else if (const auto* tuple = value.as<Value::Tuple>()) {
    for (const Value& item : tuple->items) touch(item);
  } else if (const auto* dict = value.as<Value::Dict>()) {
    for (const auto& [key, item] : dict->items) touch(item);
  }
}

}  // namespace accel
