#include "runner/tokenizers/word_counts.h"

#include <unordered_map>

#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

// Texts are taken in parts of about this size, to hold few copies of them.
constexpr size_t kTextPart = 1 << 20;

/// Where the part that begins at `at` ends: behind a line that a word follows, so that no run of
/// white space is cut.
size_t end_of_part(std::string_view text, size_t at) {
  size_t end = at + kTextPart;
  while (end < text.size()) {
    const size_t line = text.find('\n', end);
    if (line == text.npos || line + 1 >= text.size()) return text.size();
    end = line + 1;
    if (static_cast<unsigned char>(text[end]) > ' ' &&
        static_cast<unsigned char>(text[end]) < 0x80) {
      return end;
    }
  }
  return text.size();
}

}  // namespace

WordCounts count_words(const std::vector<std::string_view>& texts, const Normalizer* normalizer,
                       const PreTokenizer& pre_tokenizer) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string_view text : texts) {
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = end_of_part(text, at);
      NormalText part{lossy_utf8(text.substr(at, end - at))};
      if (normalizer) normalizer->apply(part);
      Words words;
      words.text = std::move(part.text);
      words.spans = {{0, words.text.size()}};
      pre_tokenizer.apply(words);
      for (const TextSpan& span : words.spans) ++counts[std::string(words.word(span))];
    }
  }
  return {counts.begin(), counts.end()};
}

}  // namespace accel
