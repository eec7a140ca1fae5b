// How a text is cut into words: the 'pre_tokenizer' of a tokenizer.json.
#pragma once

#include <memory>

#include "runner/tokenizers/json_place.h"
#include "runner/tokenizers/words.h"

namespace accel {

/// Immutable; several threads may use one.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Words& words) const = 0;
};

/// Reads the object 'pre_tokenizer'; a null gives none. Throws FormatError that names the place.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonPlace& place);

/// When Metaspace puts its mark in front of a text.
enum class PrependScheme { kAlways, kFirst, kNever };

/// What Metaspace's cutting and decoding have in common.
struct MetaspaceOptions {
  std::string mark = "\xe2\x96\x81";
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};
MetaspaceOptions read_metaspace(const JsonPlace& place);

}  // namespace accel
