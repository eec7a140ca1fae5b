// Regular expressions of tokenizers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/regex.h"
#include "text/json_node.h"

namespace accel {

/// Spells out the escapes that the engines read differently: \s, \w and their negations. Throws
/// FormatError for syntax without a counterpart and for syntax that could do more than match.
std::string pcre_pattern(const std::string& expression);

/// Immutable and thread-safe.
class Pattern {
 public:
  /// A regular expression in the common subset of Oniguruma and PCRE2. Throws FormatError for
  /// unsupported syntax.
  static Pattern regex(const std::string& expression);
  static Pattern literal(std::string text);
  /// {"Regex": ...} or {"String": ...}.
  static Pattern read(const JsonNode& node);

  /// Appends all non-overlapping matches in `text`, which must be valid UTF-8. Throws DataError
  /// when the match limit is exceeded.
  void find(std::string_view text, std::vector<TextSpan>& matches) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;  ///< null: search for `literal_`
  std::string literal_;
};

/// `text` with each match replaced by the literal `content`. Stops when the result is longer than
/// `limit`.
std::string replaced(const Pattern& pattern, std::string_view text, std::string_view content,
                     size_t limit = std::string::npos);

}  // namespace accel
