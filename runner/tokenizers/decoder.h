// How tokens become text again: the 'decoder' of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runner/tokenizers/json_place.h"

namespace accel {

/// Immutable; several threads may use one.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Rewrites the tokens; the text is all that is left, put together.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// Reads the object 'decoder'; a null gives none. Throws FormatError that names the place.
std::unique_ptr<TokenDecoder> read_decoder(const JsonPlace& place);

}  // namespace accel
