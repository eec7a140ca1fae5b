// A model as llama.cpp reads it from a GGUF file: its architecture's metadata and its tensors.
#pragma once

#include <string>
#include <vector>

#include "formats/tensors/gguf.h"
#include "formats/tensors/tensor_source.h"

namespace accel {

struct GgufModel {
  std::string architecture;           ///< "llama"
  std::vector<GgufField> fields;      ///< of the architecture: "llama.block_count"
  std::vector<TensorSource> tensors;  ///< in llama.cpp's names and layouts
  std::vector<std::string> notes;     ///< what llama.cpp computes otherwise
};

}  // namespace accel
