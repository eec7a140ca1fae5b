// Normalization of texts before pre-tokenization: the 'normalizer' of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_node.h"

namespace accel {

struct NormalizedString {
  std::string text;
  bool at_start = true;              ///< whether it still begins at the input's start
  size_t limit = std::string::npos;  ///< of its bytes after each step
};

/// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedString& text) const = 0;
};

/// Reads the object 'normalizer'; a null gives none. Throws FormatError with the path in the file.
std::unique_ptr<Normalizer> read_normalizer(const JsonNode& node);

/// The normalizer 'Precompiled': SentencePiece's character map, as in T5 and XLM-R.
std::unique_ptr<Normalizer> read_precompiled(const JsonNode& node);

/// Maps bytes to the printable characters of byte-level BPE.
std::string byte_level_text(std::string_view bytes);
/// The inverse; false, with `bytes` unchanged, for a character that maps to no byte.
bool byte_level_bytes(std::string_view text, std::string& bytes);

}  // namespace accel
