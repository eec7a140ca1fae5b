// How often each word occurs in texts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/pre_tokenizer.h"

namespace accel {

using WordCounts = std::map<std::string, int64_t>;

/// Cuts the texts as a tokenizer with these steps would. `normalizer` may be null.
WordCounts count_words(const std::vector<std::string_view>& texts, const Normalizer* normalizer,
                       const PreTokenizer& pre_tokenizer);

}  // namespace accel
