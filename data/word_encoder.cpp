#include "data/word_encoder.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/truncation.h"

namespace accel {
namespace {

/// A word that any tokenizer has tokens for.
constexpr auto kProbe = "a";

/// How byte-level and SentencePiece's tokens spell a space.
constexpr const char* kSpaceMarks[] = {"\xc4\xa0", "\xe2\x96\x81"};

bool begins_with_space(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text, /*with_special=*/false);
  const std::string first = ids.empty() ? "" : tokenizer.token(ids.front());
  return std::any_of(std::begin(kSpaceMarks), std::end(kSpaceMarks),
                     [&](const char* mark) { return first.starts_with(mark); });
}

}  // namespace

WordEncoder::WordEncoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      needs_space_(!begins_with_space(*tokenizer_, kProbe) &&
                   begins_with_space(*tokenizer_, " " + std::string(kProbe))) {
  const std::vector<int32_t> all = tokenizer_->encode(kProbe);
  const std::vector<int32_t> text = tokenizer_->encode(kProbe, /*with_special=*/false);
  const auto found = std::search(all.begin(), all.end(), text.begin(), text.end());
  if (found == all.end() || text.empty()) {
    throw DataError("the tokenizer changes a text's tokens when it adds the special ones",
                    "words and their tags take one that puts them around a text");
  }
  before_.assign(all.begin(), found);
  after_.assign(found + static_cast<ptrdiff_t>(text.size()), all.end());
}

WordTokens WordEncoder::encode(const std::vector<std::string>& words, int64_t max_length) const {
  const size_t room = room_for_text(before_.size() + after_.size(), max_length);
  WordTokens out{before_, {}};
  out.words.assign(before_.size(), WordTokens::kNoWord);
  for (size_t i = 0; i < words.size() && out.ids.size() < before_.size() + room; ++i) {
    const std::string& word = words[i];
    const bool space = needs_space_ && !word.empty() && word.front() != ' ';
    for (const int32_t id : tokenizer_->encode(space ? " " + word : word, /*with_special=*/false)) {
      out.ids.push_back(id);
      out.words.push_back(static_cast<int32_t>(i));
    }
  }
  const size_t size = std::min(out.ids.size(), before_.size() + room);
  out.ids.resize(size);
  out.words.resize(size);
  out.ids.insert(out.ids.end(), after_.begin(), after_.end());
  out.words.resize(out.ids.size(), WordTokens::kNoWord);
  return out;
}

}  // namespace accel
