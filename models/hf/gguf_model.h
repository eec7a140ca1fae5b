// A model as llama.cpp reads it from a GGUF file: its architecture's metadata and its tensors.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensors/gguf.h"
#include "formats/tensors/tensor_source.h"

namespace accel {

struct GgufModel {
  std::string architecture;           ///< "llama"
  std::vector<GgufField> fields;      ///< of the architecture: "llama.block_count"
  std::vector<TensorSource> tensors;  ///< in llama.cpp's names and layouts
  std::vector<std::string> notes;     ///< what llama.cpp computes otherwise
  std::set<std::string> exact;        ///< matrices in F32 whatever the file's type: routers
};

/// Throws Error (kRecipe) for a model with `what`, which llama.cpp's models lack or ignore.
[[noreturn]] void refuse_gguf(const std::string& what);

/// A module's name in folders, without its layer, and llama.cpp's: "mlp.up_proj.", "ffn_up.".
struct GgufName {
  std::string_view stored;
  const char* ours;
};

/// llama.cpp's name of a folder's weight by the module's in `names`: that of a layer, whose name
/// begins with `layers` ("model.layers.") and its number, begins with "blk." and the number. Throws
/// Error (kRecipe) for other modules.
std::string gguf_weight_name(const std::string& name, std::string_view layers,
                             std::span<const GgufName> names);

}  // namespace accel
