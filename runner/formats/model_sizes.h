// How large a model and its layers are, told from the names and shapes of its weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/formats/safetensors.h"

namespace accel {

/// In numbers, not bytes.
struct ModelSizes {
  int64_t total = 0;
  int64_t largest = 0;        ///< layer
  std::string largest_layer;  ///< "transformer.h.0"; of several, the first by name
};

/// A layer is what goes to a device as a whole: a block of a numbered list ("h.0"), or else a
/// module with weights of its own ("wte").
ModelSizes model_sizes(const std::vector<NamedArray>& weights);

}  // namespace accel
