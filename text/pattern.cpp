#include "text/pattern.h"

#include <string_view>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/unicode.h"

namespace accel {
namespace {

// PCRE2 counts U+180E as white space, and no marks as word characters.
constexpr std::string_view kWhite =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
/// All other characters.
constexpr std::string_view kNotWhite =
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";

/// Whether `name` is a script, such as Han.
bool is_script(std::string_view name) try {
  const Regex regex("\\p{sc:" + std::string(name) + "}");
  return true;
} catch (const FormatError&) {
  return false;
}

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
    throw FormatError(text("has '{}', which is not supported", printable(what)));
  }

  void escape() {
    if (at_ + 1 >= text_.size()) refuse("\\");
    const char c = text_[at_ + 1];
    const bool negated = c == 'S' || c == 'W';
    if (c == 's' || c == 'S' || c == 'w' || c == 'W') {
      if (in_class_ && c == 'W') refuse("\\W in [...]");
      const std::string_view set = c == 's' || c == 'S' ? kWhite : kWord;
      if (!in_class_) out_ += negated ? "[^" : "[";
      out_ += in_class_ && negated ? kNotWhite : set;
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
    copy(3);
    if (text_[at_] == '^') copy(1);
    // To PCRE2, a script's name alone includes characters that other scripts share, such as U+3002.
    if (is_script(text_.substr(at_, end - at_))) out_ += "sc:";
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
        nested_class();
      } else if (text_.substr(at_, 2) == "&&") {
        refuse("&&");
      } else {
        copy(1);
      }
    }
    in_class_ = false;
    copy(1);
  }

  /// The characters of a class in a class, which PCRE2 does not have, are those of the outer one.
  void nested_class() {
    const size_t end = text_.find_first_of("[\\]", at_ + 1);
    if (end == text_.npos || text_[end] != ']') refuse("[ in [...]");
    const std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
    // These would mean something else there.
    const bool joins = text_[at_ - 1] == '-' || inner.starts_with('-') || inner.ends_with('-') ||
                       text_.substr(end + 1, 1) == "-";
    if (inner.empty() || joins || std::string_view("^:").find(inner[0]) != inner.npos ||
        inner.find("&&") != inner.npos) {
      refuse("[ in [...]");
    }
    out_ += inner;
    at_ = end + 1;
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
  if (!is_utf8(expression)) throw FormatError("is not UTF-8");
  return PatternReader(expression).translate();
}

struct Pattern::Compiled {
  Regex regex;
  std::string shown;
};

Pattern Pattern::regex(const std::string& expression) {
  Pattern pattern;
  // Lines begin and end at line feeds anywhere, as in Oniguruma.
  pattern.compiled_ = std::make_shared<Compiled>(
      Compiled{Regex(pcre_pattern(expression), true), printable(expression)});
  return pattern;
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::read(const JsonNode& node) {
  if (!node.find("String").is_null()) {
    node.only({"String"});
    return literal(node.at("String").text());
  }
  node.only({"Regex"});
  const JsonNode expression = node.at("Regex");
  try {
    return regex(expression.text());
  } catch (const FormatError& error) {
    expression.refuse(error.what());
  }
}

namespace {

std::optional<TextSpan> next_match(Regex::Search& search, size_t at, const std::string& shown) {
  try {
    return search.next(at);
  } catch (const FormatError& error) {
    throw DataError(text("the tokenizer's pattern '{}' {}", shown, error.what()),
                    "use a pattern with less backtracking");
  }
}

}  // namespace

void Pattern::find(std::string_view text, std::vector<TextSpan>& matches) const {
  if (!compiled_) {
    if (literal_.empty()) return;
    for (size_t at = text.find(literal_); at != text.npos;
         at = text.find(literal_, at + literal_.size())) {
      matches.push_back({at, at + literal_.size()});
    }
    return;
  }
  Regex::Search search(compiled_->regex, text);
  size_t last_end = text.size() + 1;
  for (size_t at = 0; at <= text.size();) {
    const auto found = next_match(search, at, compiled_->shown);
    if (!found) return;
    // An empty match at the end of the previous one does not count.
    const bool is_empty = found->begin == found->end;
    if (!is_empty || found->begin != last_end) matches.push_back(*found);
    last_end = at = found->end;
    if (is_empty) at += at < text.size() ? character_at(text, at).bytes : 1;
  }
}

std::string replaced(const Pattern& pattern, std::string_view text, std::string_view content,
                     size_t limit) {
  std::vector<TextSpan> matches;
  pattern.find(text, matches);
  std::string out;
  size_t kept = 0;
  for (const TextSpan& match : matches) {
    out.append(text.substr(kept, match.begin - kept)).append(content);
    if (out.size() > limit) return out;
    kept = match.end;
  }
  return out.append(text.substr(kept));
}

}  // namespace accel
