#include "data/datasets/text/question_encoder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "text/unicode.h"

namespace accel {
namespace {

using Ids = std::vector<int32_t>;

/// A word that every tokenizer can encode.
constexpr auto kPairProbe = "a";

size_t find_ids(const Ids& all, size_t from, const Ids& wanted) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(from);
  const auto found = std::search(begin, all.end(), wanted.begin(), wanted.end());
  if (found == all.end() || wanted.empty()) {
    throw DataError("the tokenizer changes a text's tokens when it adds the special ones",
                    "questions and contexts take one that puts them around both texts");
  }
  return static_cast<size_t>(found - all.begin());
}

TokenPair part_of(const TokenPair& all, size_t begin, size_t end) {
  const auto cut = [&](const Ids& ids) {
    return Ids(ids.begin() + static_cast<ptrdiff_t>(begin),
               ids.begin() + static_cast<ptrdiff_t>(end));
  };
  return {cut(all.ids), cut(all.types)};
}

void append(TokenPair& to, const TokenPair& part) {
  to.ids.insert(to.ids.end(), part.ids.begin(), part.ids.end());
  to.types.insert(to.types.end(), part.types.begin(), part.types.end());
}

/// Whether the byte continues a character of UTF-8.
bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// `span` as whole characters, without white space at its ends.
ContextBytes without_space(std::string_view text, const TokenSpan& span) {
  size_t begin = span.begin, end = span.end;
  while (begin > 0 && begin < text.size() && continues_character(text[begin])) --begin;
  while (end < text.size() && end > span.begin && continues_character(text[end])) ++end;
  while (begin < end) {
    const Character next = character_at(text, begin);
    if (!is_white(next.code)) break;
    begin += next.bytes;
  }
  while (end > begin) {
    size_t last = end - 1;
    while (last > begin && continues_character(text[last])) --last;
    if (!is_white(character_at(text, last).code)) break;
    end = last;
  }
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

}  // namespace

QuestionEncoder::QuestionEncoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  const TokenPair all = tokenizer_->encode_pair(kPairProbe, kPairProbe);
  const Ids text = tokenizer_->encode(kPairProbe, /*with_special=*/false);
  const size_t first = find_ids(all.ids, 0, text);
  const size_t second = find_ids(all.ids, first + text.size(), text);
  before_ = part_of(all, 0, first);
  between_ = part_of(all, first + text.size(), second);
  after_ = part_of(all, second + text.size(), all.ids.size());
  question_type_ = all.types[first];
  context_type_ = all.types[second];
}

std::vector<int32_t> QuestionEncoder::question(std::string_view text) const {
  return tokenizer_->encode(text, /*with_special=*/false);
}

ContextTokens QuestionEncoder::context(std::string_view text) const {
  SpannedTokens found = tokenizer_->encode_spans(text);
  ContextTokens out{std::move(found.ids), {}};
  for (const TokenSpan& span : found.spans) out.bytes.push_back(without_space(text, span));
  return out;
}

std::vector<ContextWindow> QuestionEncoder::windows(int64_t question_tokens, int64_t tokens,
                                                    int64_t max_length, int64_t doc_stride) const {
  const int64_t others = before_context(question_tokens) + static_cast<int64_t>(after_.ids.size());
  if (others + tokens <= max_length) return {{0, tokens}};
  const int64_t room = max_length - others;
  if (room <= doc_stride) {
    throw FormatError(
        accel::text("has a question of {} tokens, which with a 'max_length' of {} leaves {} for "
                    "its context, and 'doc_stride' is {}",
                    question_tokens, max_length, std::max<int64_t>(room, 0), doc_stride));
  }
  std::vector<ContextWindow> out;
  for (int64_t first = 0;; first += room - doc_stride) {
    out.push_back({first, std::min(room, tokens - first)});
    if (first + room >= tokens) return out;
  }
}

TokenPair QuestionEncoder::joined(const std::vector<int32_t>& question,
                                  std::span<const int32_t> context) const {
  TokenPair out = before_;
  append(out, {question, Ids(question.size(), question_type_)});
  append(out, between_);
  append(out, {{context.begin(), context.end()}, Ids(context.size(), context_type_)});
  append(out, after_);
  return out;
}

int64_t QuestionEncoder::no_answer(const TokenPair& joined) const {
  const SpecialTokens& special = tokenizer_->special();
  for (const std::optional<int32_t>& token : {special.cls, special.bos}) {
    if (!token) continue;
    const auto found = std::find(joined.ids.begin(), joined.ids.end(), *token);
    if (found != joined.ids.end()) return found - joined.ids.begin();
  }
  return 0;
}

int64_t QuestionEncoder::num_types() const {
  int32_t most = std::max(question_type_, context_type_);
  for (const TokenPair* part : {&before_, &between_, &after_}) {
    for (const int32_t type : part->types) most = std::max(most, type);
  }
  return most == 0 ? 0 : most + 1;
}

std::optional<std::pair<int64_t, int64_t>> answer_in(const std::vector<ContextBytes>& tokens,
                                                     const ContextWindow& window,
                                                     const ContextBytes& answer) {
  const auto begin = tokens.begin() + window.first, end = begin + window.count;
  if (begin == end || begin->begin > answer.begin || (end - 1)->end < answer.end) {
    return std::nullopt;
  }
  const auto after = std::find_if(
      begin, end, [&](const ContextBytes& token) { return token.begin > answer.begin; });
  const auto last = std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(begin),
                                 [&](const ContextBytes& token) { return token.end < answer.end; });
  return std::pair<int64_t, int64_t>(after - begin - 1, last.base() - begin);
}

}  // namespace accel
