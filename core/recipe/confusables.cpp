#include "core/recipe/confusables.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

/// A character, what it is called and what is meant by it.
struct OddCharacter {
  uint32_t code;
  const char* name;
  const char* meant;
};

constexpr auto kBlank = "a plain blank";
constexpr OddCharacter kOdd[] = {{0xa0, "a no-break space", kBlank},
                                 {0x200b, "a zero-width space", "nothing"},
                                 {0x2013, "a dash", "'-'"},
                                 {0x2014, "a dash", "'-'"},
                                 {0x2018, "a typographic quote", "\"'\""},
                                 {0x2019, "a typographic quote", "\"'\""},
                                 {0x201c, "a typographic quote", "'\"'"},
                                 {0x201d, "a typographic quote", "'\"'"},
                                 {0x202f, "a narrow no-break space", kBlank},
                                 {0x2212, "a minus sign", "'-'"},
                                 {0x3000, "an ideographic space", kBlank},
                                 {0xfeff, "a byte order mark", "nothing"}};
constexpr uint32_t kFirstWide = 0xff01, kLastWide = 0xff5e;  // '!' to '~' as wide as ideographs
constexpr uint32_t kFirstSpace = 0x2000, kLastSpace = 0x200a;

/// Of a valid character of several bytes.
uint32_t code_of(std::string_view character) {
  uint32_t code = static_cast<unsigned char>(character[0]) & (0x7fu >> character.size());
  for (const char c : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  }
  return code;
}

std::string number_of(uint32_t code) {
  char text[16];
  std::snprintf(text, sizeof text, "U+%04X", code);
  return text;
}

/// "a no-break space (U+00A0): write a plain blank"; none for a character like others.
std::optional<std::string> described(std::string_view character) {
  const uint32_t code = code_of(character);
  const std::string number = number_of(code);
  for (const OddCharacter& odd : kOdd) {
    if (odd.code == code) return text("{} ({}): write {}", odd.name, number, odd.meant);
  }
  if (kFirstSpace <= code && code <= kLastSpace) {
    return text("a typographic space ({}): write {}", number, kBlank);
  }
  if (code < kFirstWide || code > kLastWide) return std::nullopt;
  const std::string meant(1, static_cast<char>(code - kFirstWide + '!'));
  return text("a full-width '{}' ({}): write '{}'", character, number, meant);
}

/// "line 3, column 7 has ..." of the first such character of a line from byte `begin` to `end`.
std::optional<std::string> hint_in(const Source& source, std::string_view line, int number,
                                   size_t begin, size_t end) {
  for (size_t at = begin; at < end && at < line.size();) {
    const size_t length = character_length(line, at);
    if (length == 0) return std::nullopt;
    const auto words = length > 1 ? described(line.substr(at, length)) : std::nullopt;
    if (words) {
      const bool file = source.kind == Source::Kind::kFile;
      return file ? text("line {}, column {} has {}", number, at + 1, *words)
                  : text("column {} has {}", at + 1, *words);
    }
    at += length;
  }
  return std::nullopt;
}

std::string_view line_of(const Source& source, int number) {
  std::string_view rest = source.text;
  for (int i = 1; i < number; ++i) {
    const size_t end = rest.find('\n');
    if (end == rest.npos) return {};
    rest.remove_prefix(end + 1);
  }
  return rest.substr(0, rest.find('\n'));
}

/// Behind the value or key that begins at `begin`.
size_t end_of_token(std::string_view line, size_t begin) {
  const char first = begin < line.size() ? line[begin] : ' ';
  if (first == '\'' || first == '"') return std::min(line.find(first, begin + 1), line.size());
  for (size_t at = begin; at < line.size(); ++at) {
    const char c = line[at];
    const bool ends = c == ',' || c == ']' || c == '}' || c == '#' || c == '=';
    if (ends || (c == ':' && (at + 1 == line.size() || line[at + 1] == ' '))) return at;
  }
  return line.size();
}

/// The line with blanks for what is in quotes or a comment.
std::string without_texts(std::string_view line) {
  std::string out(line);
  char quote = 0;
  for (size_t at = 0; at < out.size(); ++at) {
    const char c = out[at];
    if (quote == 0 && c == '#' && (at == 0 || out[at - 1] == ' ')) return out.substr(0, at);
    const bool opens = quote == 0 && (c == '\'' || c == '"');
    if (quote != 0) out[at] = ' ';
    if (opens) quote = c;
    if (!opens && c == quote) quote = 0;
  }
  return out;
}

}  // namespace

void explain_odd_characters(const Span& where, std::string& hint) {
  const Source* source = where.source.get();
  if (!source || where.line < 1) return;
  if (!hint.empty() && !hint.starts_with("did you mean ")) return;
  const std::string_view line = line_of(*source, where.line);
  const bool argument = source->kind == Source::Kind::kArgument;
  const auto begin = static_cast<size_t>(argument ? 0 : where.column - 1);
  const size_t end = argument ? line.size() : end_of_token(line, begin);
  if (auto found = hint_in(*source, line, where.line, begin, end)) {
    hint = *std::move(found);
  }
}

void explain_odd_layout(const Span& where, std::string& hint) {
  const Source* source = where.source.get();
  const int last = where.line;
  if (!source || last < 1) return;
  for (int number = std::max(1, last - 1); number <= last; ++number) {
    const std::string line = without_texts(line_of(*source, number));
    if (auto found = hint_in(*source, line, number, 0, line.size())) {
      hint = *std::move(found);
      return;
    }
  }
}

}  // namespace accel
