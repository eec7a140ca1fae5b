#include "text/token_spans.h"

#include <algorithm>

#include "text/normalizer.h"

namespace accel {
namespace {

constexpr std::string_view kMark = "\xe2\x96\x81";  // U+2581, SentencePiece's space

/// The byte of a token such as <0x0A>; -1 for other tokens.
int byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const size_t high = kDigits.find(token[3]), low = kDigits.find(token[4]);
  return high == kDigits.npos || low == kDigits.npos ? -1 : static_cast<int>(high * 16 + low);
}

/// The text of a token, with spaces in place of marks.
std::string text_of(std::string_view token, const TokenSpelling& spelling) {
  std::string out;
  if (spelling.byte_level && byte_level_bytes(token, out)) return out;
  if (const int byte = byte_token(token); byte >= 0) return {static_cast<char>(byte)};
  if (!spelling.prefix.empty() && token.starts_with(spelling.prefix)) {
    token.remove_prefix(spelling.prefix.size());
  }
  if (!spelling.suffix.empty() && token.ends_with(spelling.suffix)) {
    token.remove_suffix(spelling.suffix.size());
  }
  for (size_t at = 0; at < token.size();) {
    const bool mark = token.substr(at).starts_with(kMark);
    out += mark ? ' ' : token[at];
    at += mark ? kMark.size() : 1;
  }
  return out;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Bytes of `text` at `at` that are the token's; 0 for another text. A space may be a mark in the
/// text, and cases may differ.
size_t match_length(std::string_view text, size_t at, std::string_view token) {
  const size_t begin = at;
  for (const char c : token) {
    if (c == ' ' && text.substr(at).starts_with(kMark)) {
      at += kMark.size();
    } else if (at < text.size() && lower(text[at]) == lower(c)) {
      ++at;
    } else {
      return 0;
    }
  }
  return at - begin;
}

class TokenAligner {
 public:
  explicit TokenAligner(std::string_view text) : text_(text) {}

  std::vector<TokenSpan> run(const std::vector<std::string>& tokens) {
    for (const std::string& token : tokens) add(token);
    fill_gap(text_.size());
    return std::move(spans_);
  }

 private:
  void add(const std::string& token) {
    // Without its first space, which a pre-tokenizer may have put in front of the text.
    const std::string_view bare = std::string_view(token).substr(token.starts_with(' ') ? 1 : 0);
    if (take(at_, token)) return;
    size_t after_space = at_;
    while (after_space < text_.size() && is_space(text_[after_space])) ++after_space;
    if (take(after_space, token) || take(at_, bare) || take(after_space, bare)) return;
    if (gap_ > 0) {
      // The bytes that the tokens in between may stand for.
      const size_t limit = std::min(text_.size(), at_ + 16 * (gap_ + 1));
      for (size_t at = at_ + 1; at < limit; ++at) {
        if (take(at, token) || take(at, bare)) return;
      }
    }
    spans_.push_back({at_, at_});
    ++gap_;
  }

  bool take(size_t at, std::string_view token) {
    const size_t length = match_length(text_, at, token);
    if (length == 0) return false;
    fill_gap(at);
    spans_.push_back({at, at + length});
    at_ = at + length;
    return true;
  }

  /// Gives the last tokens without a span the text up to `end`.
  void fill_gap(size_t end) {
    for (; gap_ > 0; --gap_) spans_[spans_.size() - gap_] = {at_, end};
  }

  std::string_view text_;
  size_t at_ = 0;   // the end of the last span
  size_t gap_ = 0;  // tokens after it whose spelling is not in the text
  std::vector<TokenSpan> spans_;
};

}  // namespace

std::vector<TokenSpan> align_tokens(std::string_view text, const std::vector<std::string>& tokens,
                                    const TokenSpelling& spelling) {
  std::vector<std::string> texts;
  for (const std::string& token : tokens) texts.push_back(text_of(token, spelling));
  return TokenAligner(text).run(texts);
}

SpannedTokens Tokenizer::encode_spans(std::string_view text) const {
  SpannedTokens out{encode(text, /*with_special=*/false), {}};
  std::vector<std::string> tokens;
  for (const int32_t id : out.ids) tokens.push_back(token(id));
  out.spans = align_tokens(text, tokens, {});
  return out;
}

}  // namespace accel
