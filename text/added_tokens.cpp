#include "text/added_tokens.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "text/growth_limit.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr size_t kLongestAddedToken = 4096;

/// The character before `end`.
uint32_t character_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return character_at(text, at).code;
}

bool at_word_boundaries(std::string_view text, const TextSpan& span) {
  return (span.begin == 0 || !is_word_character(character_before(text, span.begin))) &&
         (span.end == text.size() || !is_word_character(character_at(text, span.end).code));
}

size_t without_white_before(std::string_view text, size_t end) {
  while (end > 0) {
    const uint32_t code = character_before(text, end);
    if (!is_white(code)) break;
    std::string character;
    append_character(character, code);
    end -= character.size();
  }
  return end;
}

size_t after_white(std::string_view text, size_t at) {
  while (at < text.size() && is_white(character_at(text, at).code)) {
    at += character_at(text, at).bytes;
  }
  return at;
}

AddedToken read_added_token(const JsonNode& node, int64_t most) {
  node.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.id = static_cast<int32_t>(node.at("id").integer(0, most));
  token.content = node.at("content").text();
  if (token.content.size() > kLongestAddedToken) {
    node.at("content").refuse(text("has more than {} bytes", kLongestAddedToken));
  }
  token.single_word = node.flag_or("single_word", false);
  token.lstrip = node.flag_or("lstrip", false);
  token.rstrip = node.flag_or("rstrip", false);
  token.special = node.flag_or("special", false);
  token.normalized = node.flag_or("normalized", !token.special);
  return token;
}

}  // namespace

TokenFinder::TokenFinder(std::vector<const AddedToken*> tokens, std::vector<std::string> spelled,
                         bool splits_special)
    : splits_special_(splits_special) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (spelled[i].empty()) continue;
    size_t& longest = longest_[static_cast<unsigned char>(spelled[i][0])];
    longest = std::max(longest, spelled[i].size());
    tokens_.emplace(spelled[i], tokens[i]);
  }
}

const AddedToken* TokenFinder::next(std::string_view text, size_t& at, size_t& length) const {
  for (; at < text.size(); ++at) {
    length = std::min(longest_[static_cast<unsigned char>(text[at])], text.size() - at);
    while (length > 0) {
      // The last token not after the candidate is a match, or bounds the length of any match.
      const std::string_view candidate = text.substr(at, length);
      auto found = tokens_.upper_bound(candidate);
      if (found == tokens_.begin()) break;
      --found;
      if (candidate.starts_with(found->first)) {
        length = found->first.size();
        return found->second;
      }
      const auto same = std::mismatch(candidate.begin(), candidate.end(), found->first.begin(),
                                      found->first.end());
      length = static_cast<size_t>(same.first - candidate.begin());
    }
  }
  return nullptr;
}

std::vector<AddedSegment> TokenFinder::segments(std::string_view text) const {
  std::vector<AddedSegment> segments;
  size_t done = 0;
  size_t length = 0;
  for (size_t at = 0; const AddedToken* token = next(text, at, length); at += length) {
    if (splits_special_ && token->special) continue;
    TextSpan span{at, at + length};
    if (token->single_word && !at_word_boundaries(text, span)) continue;
    if (token->lstrip) span.begin = std::max(done, without_white_before(text, span.begin));
    if (token->rstrip) span.end = after_white(text, span.end);
    if (done < span.begin) segments.push_back({{done, span.begin}});
    // White space that an earlier token has taken; the package drops a token of no bytes.
    if (span.begin < span.end) segments.push_back({span, token->id});
    done = span.end;
  }
  if (done < text.size()) segments.push_back({{done, text.size()}});
  return segments;
}

AddedTokens::AddedTokens(const JsonNode& node, const Vocabulary& model,
                         const Normalizer* normalizer, bool splits_special) {
  if (node.is_null()) return;
  const std::vector<JsonNode> items = node.items();
  const int64_t most = model.size() + static_cast<int64_t>(items.size()) + kIdRoom;
  for (const JsonNode& item : items) {
    AddedToken token = read_added_token(item, most);
    if (token.content.empty()) continue;
    const auto id = model.find(token.content);
    const std::string* named = model.token(token.id);
    if ((id && *id != token.id) || (named && *named != token.content)) {
      item.refuse(text("has the id {}, but the model's '{}' has the id {}", token.id,
                       printable(id ? token.content : *named), id ? *id : token.id));
    }
    const int64_t key = token.id;
    const auto [added, inserted] = tokens_.emplace(key, std::move(token));
    if (!inserted) item.refuse(text("has the id {} of another token", key));
    if (!by_content_.emplace(added->second.content, &added->second).second) {
      item.refuse(text("repeats the token '{}'", printable(added->second.content)));
    }
    size_ = std::max(size_, key + 1);
  }
  std::vector<const AddedToken*> found[2];
  std::vector<std::string> spelled[2];
  for (auto& [id, token] : tokens_) {
    NormalizedString spelling{token.content, true, grown_limit(token.content.size())};
    if (token.normalized && normalizer) normalizer->apply(spelling);
    token.spelled = spelling.text;
    found[token.normalized].push_back(&token);
    spelled[token.normalized].push_back(std::move(spelling.text));
  }
  raw_ = TokenFinder(std::move(found[0]), std::move(spelled[0]), splits_special);
  normalized_ = TokenFinder(std::move(found[1]), std::move(spelled[1]), splits_special);
}

const AddedToken* AddedTokens::with_id(int64_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::with_content(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : found->second;
}

}  // namespace accel
