#include "data/datasets/text/word_encoder.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "data/datasets/text/truncation.h"

namespace accel {
namespace {

/// A word that every tokenizer can encode.
constexpr auto kProbe = "a";

/// The space character in byte-level and SentencePiece tokens.
constexpr const char* kSpaceMarks[] = {"\xc4\xa0", "\xe2\x96\x81"};

bool begins_with_space(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text, /*with_special=*/false);
  const std::string first = ids.empty() ? "" : tokenizer.token(ids.front());
  return std::any_of(std::begin(kSpaceMarks), std::end(kSpaceMarks),
                     [&](const char* mark) { return first.starts_with(mark); });
}

}  // namespace

WordEncoder::WordEncoder(std::shared_ptr<const Tokenizer> tokenizer, const TruncationConfig& cut)
    : tokenizer_(std::move(tokenizer)),
      cut_(cut),
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

WordTokens WordEncoder::encode(const std::vector<std::string>& words) const {
  WordTokens text;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool space = needs_space_ && !word.empty() && word.front() != ' ';
    for (const int32_t id : tokenizer_->encode(space ? " " + word : word, /*with_special=*/false)) {
      text.ids.push_back(id);
      text.words.push_back(static_cast<int32_t>(i));
    }
  }
  const size_t special = before_.size() + after_.size();
  const KeptTokens kept = kept_of(text.ids.size(), special, cut_);
  WordTokens out{before_, {}};
  out.words.assign(before_.size(), WordTokens::kNoWord);
  const auto add = [&](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
    const auto begin = from.begin() + static_cast<ptrdiff_t>(kept.first);
    to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(kept.size));
  };
  add(text.ids, out.ids);
  add(text.words, out.words);
  out.ids.insert(out.ids.end(), after_.begin(), after_.end());
  out.words.resize(out.ids.size(), WordTokens::kNoWord);
  return out;
}

}  // namespace accel
