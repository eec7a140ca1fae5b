// Regular expressions of PCRE2 for valid UTF-8, with bounded matching.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
};

/// A compiled expression. Immutable and thread-safe.
class Regex {
 public:
  /// `lines`: ^ and $ match at line feeds too. Throws FormatError for invalid syntax and more than
  /// 8192 bytes.
  explicit Regex(const std::string& expression, bool lines = false);

  /// The matches in one text, one after the other. The expression must outlive it.
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    ~Search();

    /// The first match that begins at or after `at`. Throws FormatError, "fails on a text: match
    /// limit exceeded", when it takes too many steps.
    std::optional<TextSpan> next(size_t at);

   private:
    struct Data;
    const Regex& regex_;
    std::string_view text_;
    std::unique_ptr<Data> data_;
  };

 private:
  template <auto Free>
  struct FreeWith;
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

/// An expression of Python's `re` in the syntax of PCRE2. Throws FormatError for what Python
/// refuses and PCRE2 does not, such as an inline flag that is not at the start.
std::string pcre_of_python(const std::string& expression);

}  // namespace accel
