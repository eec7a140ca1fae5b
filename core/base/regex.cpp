#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/base/regex.h"

#include <pcre2.h>

#include <new>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {
namespace {

constexpr size_t kMaxExpression = 8192;
constexpr uint32_t kMaxNesting = 50;
constexpr uint32_t kMatchLimit = 1'000'000;  ///< steps from one start position
constexpr uint32_t kHeapLimitKiB = 64 << 10;

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string reason(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

template <auto Free>
struct Regex::FreeWith {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>> limits;
};

struct Regex::Search::Data {
  std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>> match;
};

Regex::Regex(const std::string& expression, bool lines) {
  if (expression.size() > kMaxExpression) {
    throw FormatError(text("has more than {} bytes", kMaxExpression));
  }
  auto compiled = std::make_shared<Compiled>();
  const std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  compiled->limits.reset(pcre2_match_context_create(nullptr));
  if (!context || !compiled->limits) throw std::bad_alloc();
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
  int error = 0;
  size_t offset = 0;
  const uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | (lines ? PCRE2_MULTILINE : 0);
  compiled->code.reset(
      pcre2_compile(units(expression), expression.size(), options, &error, &offset, context.get()));
  if (!compiled->code) throw FormatError(text("is not a regular expression: {}", reason(error)));
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);  // optional: only speed
  pcre2_set_match_limit(compiled->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled->limits.get(), kHeapLimitKiB);
  compiled_ = std::move(compiled);
}

Regex::Search::Search(const Regex& regex, std::string_view text)
    : regex_(regex), text_(text), data_(std::make_unique<Data>()) {
  data_->match.reset(pcre2_match_data_create(1, nullptr));
  if (!data_->match) throw std::bad_alloc();
}

Regex::Search::~Search() = default;

std::optional<TextSpan> Regex::Search::next(size_t at) {
  const int result =
      pcre2_match(regex_.compiled_->code.get(), units(text_), text_.size(), at, PCRE2_NO_UTF_CHECK,
                  data_->match.get(), regex_.compiled_->limits.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) throw FormatError(text("fails on a text: {}", reason(result)));
  const size_t* const found = pcre2_get_ovector_pointer(data_->match.get());
  return TextSpan{found[0], found[1]};
}

std::string pcre_of_python(const std::string& expression) {
  if (!is_utf8(expression)) throw FormatError("is not UTF-8");
  static constexpr std::string_view kEscapes = "AbBdDsSwWZafnrtvxuU";
  std::string out;
  const auto refuse = [](std::string_view what) {
    throw FormatError(text("has '{}', which Python's re does not accept", printable(what)));
  };
  for (size_t at = 0; at < expression.size(); ++at) {
    const std::string_view rest = std::string_view(expression).substr(at);
    const bool is_flag = rest.starts_with("(?") && rest.size() > 2 && rest[2] >= 'a';
    const size_t flags_end = std::min(rest.find_first_not_of("aiLmsux", 2), rest.size() - 1);
    if (rest.starts_with("(*")) refuse("(*");
    if (is_flag && rest[flags_end] == ')') {
      if (at > 0) refuse(rest.substr(0, flags_end + 1));
    }
    if (rest[0] != '\\' || rest.size() == 1) {
      out += rest[0];
      continue;
    }
    const char escaped = rest[1];
    const bool is_letter = (escaped >= 'a' && escaped <= 'z') || (escaped >= 'A' && escaped <= 'Z');
    if (is_letter && kEscapes.find(escaped) == kEscapes.npos) refuse(rest.substr(0, 2));
    out += '\\';
    out += escaped == 'Z' ? 'z' : escaped;
    ++at;
  }
  return out;
}

}  // namespace accel
