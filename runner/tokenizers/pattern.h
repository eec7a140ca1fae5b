// Where a regular expression or a fixed text occurs in a text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/json_place.h"

namespace accel {

/// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
};

/// Immutable; several threads may search with one.
class Pattern {
 public:
  /// A regular expression in the syntax of Oniguruma, of which only the part is taken that means
  /// the same in PCRE2. Throws FormatError: what of it is not supported.
  static Pattern regex(const std::string& expression);
  static Pattern literal(std::string text);
  /// {"Regex": ...} or {"String": ...}.
  static Pattern read(const JsonPlace& place);

  /// Appends all matches in `text`, which is valid UTF-8; none overlap. Throws DataError when the
  /// expression would take too long.
  void find(std::string_view text, std::vector<TextSpan>& matches) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;  ///< null: `literal_` is searched for
  std::string literal_;
};

/// `text` with each match replaced by `content`, which stands for itself.
std::string replaced(const Pattern& pattern, std::string_view text, std::string_view content);

}  // namespace accel
