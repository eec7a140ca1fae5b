// The GGUF file format of llama.cpp, version 3: metadata and tensors in little-endian bytes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "formats/tensors/ggml_types.h"
#include "formats/tensors/tensor_source.h"

namespace accel {

using GgufValue = std::variant<bool, uint32_t, float, std::string, std::vector<std::string>,
                               std::vector<int32_t>, std::vector<float>, std::vector<uint8_t>>;

struct GgufField {
  std::string key;  ///< "llama.block_count"
  GgufValue value;
};

struct GgufTensor {
  TensorSource source;  ///< floating-point, of one dimension or more
  GgmlType type;
};

struct GgufFile {
  std::vector<GgufField> fields = {};
  std::vector<GgufTensor> tensors = {};
};

/// Bytes between the starts of tensors are multiples of this.
constexpr size_t kGgufAlignment = 32;

/// Writes a file, its tensors in order and read one after another. Throws std::invalid_argument for
/// duplicate keys and names, and for names of more than 63 bytes, which llama.cpp does not read;
/// FormatError that begins with a tensor's name for values beyond the range of its type.
void write_gguf(const GgufFile& file, const ByteSink& sink);

}  // namespace accel
