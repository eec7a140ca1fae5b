// A GGUF file of an exported model, for llama.cpp.
#pragma once

#include <string>
#include <vector>

#include "formats/tensors/ggml_types.h"
#include "formats/tensors/gguf.h"
#include "formats/tensors/tensor_source.h"
#include "runner/cli/export/export_source.h"

namespace accel {

/// Names of the types of a GGUF file's weights on the command line.
std::vector<std::string> gguf_type_names();
/// Of one of these names.
GgmlType gguf_type_named(const std::string& name);

struct GgufExport {
  GgufFile file;
  std::vector<std::string> notes;  ///< what llama.cpp does otherwise
};

/// The file of a model called `name`, its matrices in `type` and its vectors, routers and learned
/// positions in F32. Matrices whose rows do not fit `type` are in F16, with a note. Throws Error
/// (kRecipe) for models and tokenizers that llama.cpp lacks.
GgufExport gguf_export(const ExportSource& source, const std::vector<TensorSource>& weights,
                       GgmlType type, const std::string& name);

/// Writes the file atomically. Throws IoError, and Error (kRecipe) for values beyond the range of
/// their type.
void write_gguf_file(const std::string& path, const GgufFile& file);

/// "12 tensors in F16, 5 in F32"
std::string gguf_tensors_text(const GgufFile& file);

}  // namespace accel
