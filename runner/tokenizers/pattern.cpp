#define PCRE2_CODE_UNIT_WIDTH 8
#include "runner/tokenizers/pattern.h"

#include <pcre2.h>

#include "core/error.h"
#include "core/utf8.h"
#include "runner/formats/format_error.h"
#include "runner/tokenizers/pattern_syntax.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

constexpr size_t kMaxExpression = 8192;
constexpr uint32_t kMaxNesting = 50;
constexpr uint32_t kMatchLimit = 1'000'000;  ///< steps from one place of the text
constexpr uint32_t kHeapLimitKiB = 64 << 10;

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string reason(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>> limits;
  std::string shown;
};

Pattern Pattern::regex(const std::string& expression) {
  if (expression.size() > kMaxExpression) {
    throw FormatError("has more than " + std::to_string(kMaxExpression) + " bytes");
  }
  const std::string translated = pcre_pattern(expression);
  auto compiled = std::make_shared<Compiled>();
  const std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  compiled->limits.reset(pcre2_match_context_create(nullptr));
  if (!context || !compiled->limits) throw std::bad_alloc();
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
  int error = 0;
  size_t offset = 0;
  // Lines begin and end at line feeds anywhere, as in Oniguruma.
  compiled->code.reset(
      pcre2_compile(units(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context.get()));
  if (!compiled->code) throw FormatError("is no regular expression: " + reason(error));
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);  // without it, it is only slower
  pcre2_set_match_limit(compiled->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled->limits.get(), kHeapLimitKiB);
  compiled->shown = printable(expression);
  Pattern pattern;
  pattern.compiled_ = std::move(compiled);
  return pattern;
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::read(const JsonPlace& place) {
  if (!place.find("String").is_null()) {
    place.only({"String"});
    return literal(place.at("String").text());
  }
  place.only({"Regex"});
  const JsonPlace expression = place.at("Regex");
  try {
    return regex(expression.text());
  } catch (const FormatError& error) {
    expression.refuse(error.what());
  }
}

void Pattern::find(std::string_view text, std::vector<TextSpan>& matches) const {
  if (!compiled_) {
    if (literal_.empty()) return;
    for (size_t at = text.find(literal_); at != text.npos;
         at = text.find(literal_, at + literal_.size())) {
      matches.push_back({at, at + literal_.size()});
    }
    return;
  }
  const MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  const size_t* const found = pcre2_get_ovector_pointer(data.get());
  size_t last_end = text.size() + 1;
  for (size_t at = 0; at <= text.size();) {
    const int result = pcre2_match(compiled_->code.get(), units(text), text.size(), at,
                                   PCRE2_NO_UTF_CHECK, data.get(), compiled_->limits.get());
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      throw DataError(
          "the tokenizer's pattern '" + compiled_->shown + "' gives up: " + reason(result),
          "use a pattern that needs less backtracking");
    }
    // An empty match directly behind the one before is none.
    if (found[0] != found[1] || found[0] != last_end) matches.push_back({found[0], found[1]});
    last_end = found[1];
    at = found[1];
    if (found[0] == found[1]) at += at < text.size() ? character_at(text, at).bytes : 1;
  }
}

std::string replaced(const Pattern& pattern, std::string_view text, std::string_view content) {
  std::vector<TextSpan> matches;
  pattern.find(text, matches);
  std::string out;
  size_t kept = 0;
  for (const TextSpan& match : matches) {
    out.append(text.substr(kept, match.begin - kept)).append(content);
    kept = match.end;
  }
  return out.append(text.substr(kept));
}

}  // namespace accel
