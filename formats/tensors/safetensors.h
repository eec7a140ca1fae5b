// The safetensors file format: a JSON header and tensor data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/mapped_file.h"

namespace accel {

struct NamedArray {
  std::string name;
  Array array;
};

/// Writes the same bytes as Hugging Face's library: metadata {"format": "pt"}, wider types first,
/// then by name. Throws std::invalid_argument for duplicate names, "__metadata__" and names that
/// are not UTF-8.
void write_safetensors(const std::vector<NamedArray>& tensors, const ByteSink& sink);

struct SafetensorsFile {
  std::vector<NamedArray> tensors;  ///< in file order
  std::map<std::string, std::string> metadata;
};

/// The arrays are views that keep `file` alive; files of other programs may have unaligned data.
/// Throws FormatError unless the tensors cover the data exactly.
SafetensorsFile read_safetensors(const SharedBytes& file);

}  // namespace accel
