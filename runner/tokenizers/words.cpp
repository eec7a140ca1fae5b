#include "runner/tokenizers/words.h"

#include <algorithm>

#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

/// Grows from what merges: neighbours in `parts`, in the order they come, become one.
void merge_into_last(std::vector<SplitPart>& parts, bool backwards) {
  std::vector<SplitPart> merged;
  bool previous_match = false;
  if (backwards) std::reverse(parts.begin(), parts.end());
  for (const SplitPart& part : parts) {
    if (part.match && !previous_match && !merged.empty()) {
      (backwards ? merged.back().span.begin : merged.back().span.end) =
          backwards ? part.span.begin : part.span.end;
    } else {
      merged.push_back(part);
    }
    previous_match = part.match;
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  parts = std::move(merged);
}

void merge_runs(std::vector<SplitPart>& parts) {
  std::vector<SplitPart> merged;
  for (const SplitPart& part : parts) {
    if (!merged.empty() && merged.back().match == part.match) {
      merged.back().span.end = part.span.end;
    } else {
      merged.push_back(part);
    }
  }
  parts = std::move(merged);
}

void apply_behavior(std::vector<SplitPart>& parts, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const SplitPart& part) { return part.match; });
      break;
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kMergedWithPrevious:
      merge_into_last(parts, false);
      break;
    case SplitBehavior::kMergedWithNext:
      merge_into_last(parts, true);
      break;
    case SplitBehavior::kContiguous:
      merge_runs(parts);
      break;
  }
}

}  // namespace

SplitBehavior read_behavior(const JsonPlace& place) {
  const std::string& name = place.text();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  place.refuse("must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void split_words(Words& words, SplitBehavior behavior,
                 const std::function<void(std::string_view, std::vector<SplitPart>&)>& find) {
  std::vector<TextSpan> spans;
  std::vector<SplitPart> parts;
  const size_t start = words.spans.empty() ? 0 : words.spans.front().begin;
  for (const TextSpan& span : words.spans) {
    parts.clear();
    find(words.word(span), parts);
    apply_behavior(parts, behavior);
    for (const SplitPart& part : parts) {
      if (part.span.begin == part.span.end) continue;
      spans.push_back({span.begin + part.span.begin, span.begin + part.span.end});
    }
  }
  words.at_start = words.at_start && !spans.empty() && spans.front().begin == start;
  words.spans = std::move(spans);
}

void split_at_pattern(Words& words, SplitBehavior behavior, const Pattern& pattern, bool inverted) {
  std::vector<TextSpan> matches;
  split_words(words, behavior, [&](std::string_view word, std::vector<SplitPart>& parts) {
    matches.clear();
    pattern.find(word, matches);
    size_t behind = 0;
    for (const TextSpan& match : matches) {
      if (behind < match.begin) parts.push_back({{behind, match.begin}, inverted});
      parts.push_back({match, !inverted});
      behind = match.end;
    }
    if (behind < word.size()) parts.push_back({{behind, word.size()}, inverted});
  });
}

void split_at_characters(Words& words, SplitBehavior behavior,
                         const std::function<bool(uint32_t)>& matches) {
  split_words(words, behavior, [&](std::string_view word, std::vector<SplitPart>& parts) {
    size_t behind = 0;
    for (size_t at = 0; at < word.size();) {
      const auto [code, bytes] = character_at(word, at);
      if (matches(code)) {
        if (behind < at) parts.push_back({{behind, at}, false});
        parts.push_back({{at, at + bytes}, true});
        behind = at + bytes;
      }
      at += bytes;
    }
    if (behind < word.size()) parts.push_back({{behind, word.size()}, false});
  });
}

void rewrite_words(Words& words,
                   const std::function<void(std::string_view word, std::string& out)>& rewrite) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4);
  std::vector<TextSpan> spans;
  spans.reserve(words.spans.size());
  for (const TextSpan& span : words.spans) {
    const size_t begin = text.size();
    rewrite(words.word(span), text);
    if (text.size() > begin) spans.push_back({begin, text.size()});
  }
  words.text = std::move(text);
  words.spans = std::move(spans);
}

}  // namespace accel
