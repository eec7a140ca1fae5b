// What a tokenizer.json says of how long texts get: its 'truncation' and its 'padding'.
#pragma once

#include "runner/tokenizers/json_place.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

/// The object 'truncation', or nothing of a null. `special` tokens are added to a text. Throws
/// FormatError that names the place, as all below.
std::optional<TextCut> read_truncation(const JsonPlace& place, int64_t special);

/// The object 'padding', or nothing of a null.
std::optional<TextFill> read_padding(const JsonPlace& place);

}  // namespace accel
