// What is done to a text before it is cut: the 'normalizer' of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/json_place.h"

namespace accel {

/// A text on its way.
struct NormalText {
  std::string text;
  bool at_start = true;  ///< whether it still begins where the user's text does
};

/// Immutable; several threads may use one.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalText& text) const = 0;
};

/// Reads the object 'normalizer'; a null gives none. Throws FormatError that names the place.
std::unique_ptr<Normalizer> read_normalizer(const JsonPlace& place);

/// SentencePiece's own table of replacements, as T5 and XLM-R have it.
std::unique_ptr<Normalizer> read_precompiled(const JsonPlace& place);

/// The 256 bytes as the characters that byte-level tokenizers write them with.
std::string byte_level_text(std::string_view bytes);
/// The other way; false, and `bytes` as it was, when one of the characters stands for no byte.
bool byte_level_bytes(std::string_view text, std::string& bytes);

}  // namespace accel
