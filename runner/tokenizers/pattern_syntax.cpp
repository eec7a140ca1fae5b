#include "runner/tokenizers/pattern_syntax.h"

#include <string_view>

#include "core/utf8.h"
#include "runner/formats/format_error.h"

namespace accel {
namespace {

// PCRE2 counts U+180E as white space, and no marks as parts of words.
constexpr std::string_view kWhite =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  std::string translate() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '{' && text_.substr(at_ + 1, 1) == ",") {
        refuse("{,");
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  void copy(size_t count) {
    out_.append(text_.substr(at_, count));
    at_ += count;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw FormatError("holds '" + printable(what) + "', which is not supported");
  }

  void escape() {
    if (at_ + 1 >= text_.size()) refuse("\\");
    const char c = text_[at_ + 1];
    const bool negated = c == 'S' || c == 'W';
    if (c == 's' || c == 'S' || c == 'w' || c == 'W') {
      if (in_class_ && negated) refuse("\\" + std::string(1, c) + " in [...]");
      const std::string_view set = c == 's' || c == 'S' ? kWhite : kWord;
      if (!in_class_) out_ += negated ? "[^" : "[";
      out_ += set;
      if (!in_class_) out_ += ']';
      at_ += 2;
      return;
    }
    if (c == 'p' || c == 'P') return property();
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (digit || (letter && std::string_view("dDrntfvxAz").find(c) == std::string_view::npos)) {
      refuse(text_.substr(at_, 2));
    }
    copy(static_cast<unsigned char>(c) < 0x80 ? 2 : 1);
  }

  void property() {
    const size_t end = text_.find('}', at_);
    if (text_.substr(at_ + 2, 1) != "{" || end == text_.npos) refuse(text_.substr(at_, 2));
    copy(end + 1 - at_);
  }

  void character_class() {
    in_class_ = true;
    copy(1);
    if (text_.substr(at_, 1) == "^") copy(1);
    if (text_.substr(at_, 1) == "]") refuse("[]");
    while (at_ < text_.size() && text_[at_] != ']') {
      if (text_[at_] == '\\') {
        escape();
      } else if (text_[at_] == '[') {
        refuse("[ in [...]");
      } else if (text_.substr(at_, 2) == "&&") {
        refuse("&&");
      } else {
        copy(1);
      }
    }
    in_class_ = false;
    copy(1);
  }

  void group() {
    static constexpr std::string_view kKnown[] = {"(?:", "(?=",  "(?!",  "(?<=", "(?<!",
                                                  "(?>", "(?i:", "(?i)", "(?-i:"};
    if (text_.substr(at_, 2) == "(*") refuse("(*");
    if (text_.substr(at_, 2) != "(?") return copy(1);
    for (const std::string_view known : kKnown) {
      if (text_.substr(at_, known.size()) == known) return copy(known.size());
    }
    refuse(text_.substr(at_, 3));
  }

  std::string_view text_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string pcre_pattern(const std::string& expression) {
  if (!is_utf8(expression)) throw FormatError("is no UTF-8");
  return PatternReader(expression).translate();
}

}  // namespace accel
