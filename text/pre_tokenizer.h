// Splitting of texts into words: the 'pre_tokenizer' of a tokenizer.json.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_node.h"
#include "text/pattern.h"

namespace accel {

/// Non-empty words in one buffer.
struct Words {
  std::string text;
  std::vector<TextSpan> spans;
  bool at_start = true;              ///< whether the first word begins at the input's start
  size_t limit = std::string::npos;  ///< of the bytes after each step

  std::string_view word(const TextSpan& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
};

/// What a split does with its matches, as in Hugging Face tokenizers.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// The value of 'behavior'. Throws FormatError.
SplitBehavior read_behavior(const JsonNode& node);

/// A piece of a word: a match, or the text between two matches.
struct SplitPiece {
  TextSpan span;
  bool match = false;
};

/// Splits every word. `find` appends all pieces of a word in order, without gaps.
void split_words(Words& words, SplitBehavior behavior,
                 const std::function<void(std::string_view, std::vector<SplitPiece>&)>& find);

/// Splits at the matches of a pattern, or, if `inverted`, at the text between them.
void split_at_pattern(Words& words, SplitBehavior behavior, const Pattern& pattern, bool inverted);

/// Splits at the characters that `matches` selects, each a separate match.
void split_at_characters(Words& words, SplitBehavior behavior,
                         const std::function<bool(uint32_t)>& matches);

/// Replaces every word by the text that `rewrite` appends; empty words are dropped.
void rewrite_words(Words& words,
                   const std::function<void(std::string_view word, std::string& out)>& rewrite);

/// Immutable and thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Words& words) const = 0;
};

/// Reads the object 'pre_tokenizer'; a null gives none. Throws FormatError with the path in the
/// file.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonNode& node);

/// When Metaspace prepends its mark to a text.
enum class PrependScheme { kAlways, kFirst, kNever };

inline constexpr auto kMetaspaceMark = "\xe2\x96\x81";  ///< U+2581, SentencePiece's space

/// Options of Metaspace as pre-tokenizer and as decoder.
struct MetaspaceOptions {
  std::string mark = kMetaspaceMark;
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};
MetaspaceOptions read_metaspace(const JsonNode& node);

}  // namespace accel
