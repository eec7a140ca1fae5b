// Regular expressions of tokenizer.json, as PCRE2 takes them.
#pragma once

#include <string>

namespace accel {

/// The expression with what the two engines read differently spelled out: \s, \w and their
/// opposites. Throws FormatError for what has no counterpart or could do more than match.
std::string pcre_pattern(const std::string& expression);

}  // namespace accel
