// A text on its way to the model: cut into words, by steps that split or rewrite them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/pattern.h"

namespace accel {

/// Words of one buffer; none is empty.
struct Words {
  std::string text;
  std::vector<TextSpan> spans;
  bool at_start = true;  ///< whether the first word begins where the user's text does

  std::string_view word(const TextSpan& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
};

/// What becomes of the matches that a text is split at.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// The behavior that 'behavior' names. Throws FormatError.
SplitBehavior read_behavior(const JsonPlace& place);

/// A part of a word: a match of what is looked for, or what lies between two.
struct SplitPart {
  TextSpan span;
  bool match = false;
};

/// Splits every word. `find` appends all parts of a word in order, with no gaps.
void split_words(Words& words, SplitBehavior behavior,
                 const std::function<void(std::string_view, std::vector<SplitPart>&)>& find);

/// Splits at the matches of a pattern, or, inverted, at what lies between.
void split_at_pattern(Words& words, SplitBehavior behavior, const Pattern& pattern, bool inverted);

/// Splits at characters: each that `matches` is a match of its own.
void split_at_characters(Words& words, SplitBehavior behavior,
                         const std::function<bool(uint32_t)>& matches);

/// Replaces every word by what `rewrite` appends to the text for it; empty ones go.
void rewrite_words(Words& words,
                   const std::function<void(std::string_view word, std::string& out)>& rewrite);

}  // namespace accel
