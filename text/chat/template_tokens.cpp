#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/text.h"
#include "text/chat/template_tree.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr size_t kMaxTemplateSource = size_t{256} << 10;
constexpr const char* kSpace = " \t\n\v\f\r";

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Splits a template into tokens in one pass.
class TemplateLexer {
 public:
  explicit TemplateLexer(std::string source) : source_(std::move(source)) {}

  std::vector<TemplateToken> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      add_text(tag);
      if (tag == std::string::npos) break;
      open(tag);
    }
    add(TemplateTokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  size_t next_tag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string::npos;
  }

  /// Adds the text before a tag, without the white space that the tag strips.
  void add_text(size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const size_t size = text.size();
    if (tag != std::string::npos) {
      const char kind = source_[tag + 1];
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (sign == '-') {
        text = text.substr(0, text.find_last_not_of(kSpace) + 1);
      } else if (sign != '+' && kind != '{') {
        const size_t line = text.rfind('\n') + 1;
        const bool blank = text.find_first_not_of(kSpace, line) == std::string_view::npos;
        if ((line > 0 || line_starts_) && blank) text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TemplateTokenKind::kText, std::string(text));
    count_lines(at_, at_ + size);
    at_ = tag == std::string::npos ? source_.size() : tag;
  }

  void count_lines(size_t begin, size_t end) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<ptrdiff_t>(begin),
                   source_.begin() + static_cast<ptrdiff_t>(std::min(end, source_.size())), '\n'));
  }

  void open(size_t tag) {
    const char kind = source_[tag + 1];
    at_ = tag + 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    if (kind == '#') return skip_comment();
    if (kind == '%') {
      const size_t end = end_of_statement(at_, "raw");
      if (end != std::string::npos) return read_raw(end);
    }
    add(kind == '{' ? TemplateTokenKind::kPrint : TemplateTokenKind::kStatement, "");
    const char* end = kind == '{' ? "}}" : "%}";
    std::string open_brackets;
    while (true) {
      skip_space();
      if (at_ >= source_.size()) refuse_template(line_, "a tag is not closed");
      if (open_brackets.empty() && close(end, kind == '{')) return;
      read_token(open_brackets);
    }
  }

  void skip_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) refuse_template(line_, "a comment is not closed");
    count_lines(at_, end);
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    skip_after_tag(sign, /*print=*/false);
  }

  /// The end of a statement that consists of one word, whose text begins at `at`; npos elsewhere.
  size_t end_of_statement(size_t at, std::string_view word) const {
    const auto skip = [&](size_t from) {
      return std::min(source_.find_first_not_of(kSpace, from), source_.size());
    };
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = skip(at);
    if (source_.compare(at, word.size(), word) != 0) return std::string::npos;
    at = skip(at + word.size());
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    return source_.compare(at, 2, "%}") == 0 ? at + 2 : std::string::npos;
  }

  void skip_statement(size_t end) {
    count_lines(at_, end);
    at_ = end;
    const char sign = source_[end - 3];
    skip_after_tag(sign == '-' || sign == '+' ? sign : '\0', /*print=*/false);
  }

  /// Takes {% raw %}, whose end is given, and the text up to {% endraw %}. The line end after
  /// {% raw %} stays, despite trim_blocks.
  void read_raw(size_t begin) {
    const int line = line_;
    count_lines(at_, begin);
    at_ = begin;
    skip_after_tag(source_[begin - 3], /*print=*/true);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      const size_t end = end_of_statement(tag + 2, "endraw");
      if (end == std::string::npos) continue;
      add_text(tag);
      return skip_statement(end);
    }
    refuse_template(line, "a statement has no 'endraw'");
  }

  /// Takes the end of a tag and the white space after it; false elsewhere.
  bool close(const char* end, bool print) {
    const char c = source_[at_];
    const bool sign = c == '-' || c == '+';
    if (source_.compare(at_ + sign, 2, end) != 0) return false;
    at_ += 2 + (sign ? 1 : 0);
    add(TemplateTokenKind::kClose, end);
    skip_after_tag(sign ? c : '\0', print);
    return true;
  }

  void skip_after_tag(char sign, bool print) {
    const size_t begin = at_;
    if (sign == '-') {
      at_ = std::min(source_.find_first_not_of(kSpace, at_), source_.size());
    } else if (sign != '+' && !print && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    count_lines(begin, at_);
    line_starts_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void skip_space() {
    const size_t begin = at_;
    at_ = std::min(source_.find_first_not_of(kSpace, at_), source_.size());
    count_lines(begin, at_);
  }

  void read_token(std::string& open_brackets) {
    const char c = source_[at_];
    if (is_name_start(c)) return read_name();
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    static constexpr std::array<const char*, 6> kDouble = {"==", "!=", "<=", ">=", "//", "**"};
    for (const char* two : kDouble) {
      if (source_.compare(at_, 2, two) == 0) return take_operator(2);
    }
    if (!std::strchr("()[]{}<>,:.|~+-*/%=", c)) {
      refuse_template(
          line_, text("has the character '{}', which is not part of Jinja", std::string(1, c)));
    }
    if (std::strchr("([{", c)) open_brackets += c;
    if (std::strchr(")]}", c)) {
      const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open_brackets.empty() || open_brackets.back() != wanted) {
        refuse_template(line_, text("has an unmatched '{}'", std::string(1, c)));
      }
      open_brackets.pop_back();
    }
    take_operator(1);
  }

  void take_operator(size_t bytes) {
    add(TemplateTokenKind::kOperator, source_.substr(at_, bytes));
    at_ += bytes;
  }

  void read_name() {
    const size_t begin = at_;
    while (at_ < source_.size() && (is_name_start(source_[at_]) || is_digit(source_[at_]))) ++at_;
    add(TemplateTokenKind::kName, source_.substr(begin, at_ - begin));
  }

  /// Integers and floats of Python, with "_" between digits.
  void read_number() {
    std::string number;
    const auto digits = [&] {
      for (; at_ < source_.size(); ++at_) {
        const bool between = source_[at_] == '_' && at_ + 1 < source_.size() &&
                             is_digit(source_[at_ + 1]) && !number.empty();
        if (!is_digit(source_[at_]) && !between) return;
        if (!between) number += source_[at_];
      }
    };
    digits();
    bool whole = true;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      whole = false;
      number += source_[at_++];
      digits();
    }
    const size_t sign = at_ + 1 < source_.size() && std::strchr("+-", source_[at_ + 1]) ? 1 : 0;
    if (at_ + sign + 1 < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E') &&
        is_digit(source_[at_ + sign + 1])) {
      whole = false;
      number.append(source_, at_, sign + 1);
      at_ += sign + 1;
      digits();
    }
    add(whole ? TemplateTokenKind::kInteger : TemplateTokenKind::kFloat, std::move(number));
  }

  void read_string(char quote) {
    std::string text;
    const int line = line_;
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] == '\n') ++line_;
      if (source_[at_] == '\\') {
        read_escape(text);
      } else {
        text += source_[at_];
      }
    }
    if (at_ >= source_.size()) refuse_template(line, "a string is not closed");
    ++at_;
    tokens_.push_back({TemplateTokenKind::kString, std::move(text), line});
  }

  /// At a backslash; ends at the escape's last character. An escape that Python does not have is
  /// its own text.
  void read_escape(std::string& text) {
    static constexpr std::string_view kNamed = "nrtbfav\\'\"", kMeant = "\n\r\t\b\f\a\v\\'\"";
    const char c = ++at_ < source_.size() ? source_[at_] : '\0';
    const size_t named = kNamed.find(c);
    if (c != '\0' && named != std::string_view::npos) {
      text += kMeant[named];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_code(c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
    } else if (c == '\n') {
      ++line_;  // a line that continues
    } else if (c == 'N' || is_digit(c)) {
      refuse_template(line_, "has an unsupported escape");
    } else {
      text.append(1, '\\').append(1, c);
    }
  }

  void append_code(size_t digits, std::string& text) {
    const std::string hex = source_.substr(std::min(at_ + 1, source_.size()), digits);
    if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos) {
      refuse_template(line_, "has an incomplete escape");
    }
    const auto code = static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
    if (code >= 0xd800 && code < 0xe000) refuse_template(line_, "has a surrogate in an escape");
    if (code > 0x10ffff) refuse_template(line_, "has an escape beyond Unicode");
    append_character(text, code);
    at_ += digits;
  }

  void add(TemplateTokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // only stripped white space since the start of the line
  std::vector<TemplateToken> tokens_;
};

}  // namespace

void refuse_template(int line, const std::string& what) {
  throw FormatError(text("line {}: {}", line, what));
}

std::vector<TemplateToken> template_tokens(std::string_view source) {
  if (source.size() > kMaxTemplateSource) throw FormatError("is longer than 256 KiB");
  std::string text;
  for (const char c : lossy_utf8(source)) {
    if (c == '\n' && text.ends_with('\r')) text.pop_back();
    text += c;
  }
  if (text.ends_with('\n')) text.pop_back();
  return TemplateLexer(std::move(text)).run();
}

}  // namespace accel
