// The safetensors file format: a JSON header and the tensors' bytes, as Hugging Face writes it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/array.h"
#include "runner/formats/bytes.h"
#include "runner/formats/mapped_file.h"

namespace accel {

struct NamedArray {
  std::string name;
  Array array;
};

/// Writes byte for byte what Hugging Face's library writes for the same tensors: metadata
/// {"format": "pt"}, wider types first, then by name. Throws std::invalid_argument for a name that
/// comes twice, is "__metadata__" or is not UTF-8.
void write_safetensors(const std::vector<NamedArray>& tensors, const ByteSink& sink);

struct SafetensorsFile {
  std::vector<NamedArray> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Reads a file held in memory or mapped. The arrays are views that keep it alive; their data may
/// be unaligned when another program wrote the file. Throws FormatError unless the tensors tile the
/// data exactly.
SafetensorsFile read_safetensors(const SharedBytes& file);

}  // namespace accel
