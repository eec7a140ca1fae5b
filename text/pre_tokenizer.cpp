#include "text/pre_tokenizer.h"

#include <algorithm>

#include "core/base/format_error.h"
#include "text/growth_limit.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace accel {
namespace {

/// Merges each match into the piece before it, or, if `backwards`, into the one after it.
void merge_into_last(std::vector<SplitPiece>& pieces, bool backwards) {
  std::vector<SplitPiece> merged;
  bool previous_match = false;
  if (backwards) std::reverse(pieces.begin(), pieces.end());
  for (const SplitPiece& piece : pieces) {
    if (piece.match && !previous_match && !merged.empty()) {
      (backwards ? merged.back().span.begin : merged.back().span.end) =
          backwards ? piece.span.begin : piece.span.end;
    } else {
      merged.push_back(piece);
    }
    previous_match = piece.match;
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  pieces = std::move(merged);
}

void merge_runs(std::vector<SplitPiece>& pieces) {
  std::vector<SplitPiece> merged;
  for (const SplitPiece& piece : pieces) {
    if (!merged.empty() && merged.back().match == piece.match) {
      merged.back().span.end = piece.span.end;
    } else {
      merged.push_back(piece);
    }
  }
  pieces = std::move(merged);
}

void apply_behavior(std::vector<SplitPiece>& pieces, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(pieces, [](const SplitPiece& piece) { return piece.match; });
      break;
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kMergedWithPrevious:
      merge_into_last(pieces, false);
      break;
    case SplitBehavior::kMergedWithNext:
      merge_into_last(pieces, true);
      break;
    case SplitBehavior::kContiguous:
      merge_runs(pieces);
      break;
  }
}

}  // namespace

SplitBehavior read_behavior(const JsonNode& node) {
  const std::string& name = node.text();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.refuse("must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void split_words(Words& words, SplitBehavior behavior,
                 const std::function<void(std::string_view, std::vector<SplitPiece>&)>& find) {
  std::vector<TextSpan> spans;
  std::vector<SplitPiece> pieces;
  const size_t start = words.spans.empty() ? 0 : words.spans.front().begin;
  for (const TextSpan& span : words.spans) {
    pieces.clear();
    find(words.word(span), pieces);
    apply_behavior(pieces, behavior);
    for (const SplitPiece& piece : pieces) {
      if (piece.span.begin == piece.span.end) continue;
      spans.push_back({span.begin + piece.span.begin, span.begin + piece.span.end});
    }
  }
  words.at_start = words.at_start && !spans.empty() && spans.front().begin == start;
  words.spans = std::move(spans);
}

void split_at_pattern(Words& words, SplitBehavior behavior, const Pattern& pattern, bool inverted) {
  std::vector<TextSpan> matches;
  split_words(words, behavior, [&](std::string_view word, std::vector<SplitPiece>& pieces) {
    matches.clear();
    pattern.find(word, matches);
    size_t done = 0;
    for (const TextSpan& match : matches) {
      if (done < match.begin) pieces.push_back({{done, match.begin}, inverted});
      pieces.push_back({match, !inverted});
      done = match.end;
    }
    if (done < word.size()) pieces.push_back({{done, word.size()}, inverted});
  });
}

void split_at_characters(Words& words, SplitBehavior behavior,
                         const std::function<bool(uint32_t)>& matches) {
  split_words(words, behavior, [&](std::string_view word, std::vector<SplitPiece>& pieces) {
    size_t done = 0;
    for (size_t at = 0; at < word.size();) {
      const auto [code, bytes] = character_at(word, at);
      if (matches(code)) {
        if (done < at) pieces.push_back({{done, at}, false});
        pieces.push_back({{at, at + bytes}, true});
        done = at + bytes;
      }
      at += bytes;
    }
    if (done < word.size()) pieces.push_back({{done, word.size()}, false});
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

namespace {

constexpr auto kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr int64_t kMaxPieceLength = 1'000'000;

class FunctionPreTokenizer final : public PreTokenizer {
 public:
  explicit FunctionPreTokenizer(std::function<void(Words&)> split) : split_(std::move(split)) {}

  void apply(Words& words) const override { split_(words); }

 private:
  std::function<void(Words&)> split_;
};

std::unique_ptr<PreTokenizer> pre_tokenizer(std::function<void(Words&)> split) {
  return std::make_unique<FunctionPreTokenizer>(std::move(split));
}

std::unique_ptr<PreTokenizer> at_characters(SplitBehavior behavior,
                                            std::function<bool(uint32_t)> matches) {
  return pre_tokenizer([behavior, matches = std::move(matches)](Words& words) {
    split_at_characters(words, behavior, matches);
  });
}

std::unique_ptr<PreTokenizer> read_byte_level(const JsonNode& node) {
  node.only({"add_prefix_space", "trim_offsets", "use_regex"});
  const bool prefix = node.flag_or("add_prefix_space", true);
  const bool split = node.flag_or("use_regex", true);
  node.flag_or("trim_offsets", true);  // ids have no offsets
  return pre_tokenizer([prefix, split, pattern = Pattern::regex(kByteLevelPattern)](Words& words) {
    if (prefix) {
      rewrite_words(words, [](std::string_view word, std::string& out) {
        if (!word.starts_with(' ')) out += ' ';
        out += word;
      });
    }
    if (split) split_at_pattern(words, SplitBehavior::kIsolated, pattern, false);
    rewrite_words(words,
                  [](std::string_view word, std::string& out) { out += byte_level_text(word); });
  });
}

std::unique_ptr<PreTokenizer> read_split(const JsonNode& node) {
  node.only({"pattern", "behavior", "invert"});
  return pre_tokenizer([pattern = Pattern::read(node.at("pattern")),
                        behavior = read_behavior(node.at("behavior")),
                        inverted = node.flag_or("invert", false)](Words& words) {
    split_at_pattern(words, behavior, pattern, inverted);
  });
}

std::unique_ptr<PreTokenizer> metaspace(const MetaspaceOptions& options) {
  return pre_tokenizer([options, pattern = Pattern::literal(options.mark)](Words& words) {
    bool first = words.at_start;
    rewrite_words(words, [&](std::string_view word, std::string& out) {
      const bool prepend = options.prepend == PrependScheme::kAlways ||
                           (options.prepend == PrependScheme::kFirst && first);
      first = false;
      if (prepend && !word.starts_with(' ') && !word.starts_with(options.mark)) out += options.mark;
      for (const char c : word) {
        if (c == ' ') {
          out += options.mark;
        } else {
          out += c;
        }
      }
    });
    if (options.split) split_at_pattern(words, SplitBehavior::kMergedWithNext, pattern, false);
  });
}

/// Splits into runs of word characters and runs of all others but white space.
void split_word_runs(Words& words) {
  split_at_characters(words, SplitBehavior::kRemoved, is_white);
  split_at_characters(words, SplitBehavior::kContiguous, is_word_character);
}

std::unique_ptr<PreTokenizer> read_fixed_length(const JsonNode& node) {
  node.only({"length"});
  const auto length = static_cast<size_t>(node.at("length").integer(1, kMaxPieceLength));
  return pre_tokenizer([length](Words& words) {
    split_words(words, SplitBehavior::kIsolated,
                [&](std::string_view word, std::vector<SplitPiece>& pieces) {
                  size_t begin = 0, characters = 0;
                  for (size_t at = 0; at < word.size();) {
                    at += character_at(word, at).bytes;
                    if (++characters % length != 0 && at < word.size()) continue;
                    pieces.push_back({{begin, at}, false});
                    begin = at;
                  }
                });
  });
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer_sequence(const JsonNode& node) {
  node.only({"pretokenizers"});
  std::vector<std::shared_ptr<PreTokenizer>> pieces;
  for (const JsonNode& piece : node.at("pretokenizers").items()) {
    if (piece.is_null()) piece.refuse("must be an object");
    pieces.push_back(read_pre_tokenizer(piece));
  }
  return pre_tokenizer([pieces = std::move(pieces)](Words& words) {
    for (const auto& piece : pieces) piece->apply(words);
  });
}

/// A pre-tokenizer that classifies characters; null for other types.
std::unique_ptr<PreTokenizer> read_character_split(const JsonNode& node) {
  const std::string& type = node.type();
  if (type == "WhitespaceSplit") {
    node.only({});
    return at_characters(SplitBehavior::kRemoved, is_white);
  }
  if (type == "Whitespace") {
    node.only({});
    return pre_tokenizer(split_word_runs);
  }
  if (type == "BertPreTokenizer") {
    node.only({});
    return pre_tokenizer([](Words& words) {
      split_at_characters(words, SplitBehavior::kRemoved, is_white);
      split_at_characters(words, SplitBehavior::kIsolated, is_punctuation);
    });
  }
  if (type == "Punctuation") {
    node.only({"behavior"});
    const JsonNode behavior = node.find("behavior");
    return at_characters(behavior.is_null() ? SplitBehavior::kIsolated : read_behavior(behavior),
                         is_punctuation);
  }
  if (type == "Digits") {
    node.only({"individual_digits"});
    return at_characters(node.flag_or("individual_digits", false) ? SplitBehavior::kIsolated
                                                                  : SplitBehavior::kContiguous,
                         is_numeric);
  }
  if (type == "CharDelimiterSplit") {
    node.only({"delimiter"});
    return at_characters(SplitBehavior::kRemoved, [delimiter = node.at("delimiter").character()](
                                                      uint32_t code) { return code == delimiter; });
  }
  return nullptr;
}

}  // namespace

MetaspaceOptions read_metaspace(const JsonNode& node) {
  node.only({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  MetaspaceOptions options;
  const JsonNode mark = node.find("replacement");
  if (!mark.is_null()) {
    mark.character();
    options.mark = mark.text();
  }
  const JsonNode copy = node.find("str_rep");
  if (!copy.is_null() && copy.text() != options.mark) copy.refuse("must be the 'replacement'");
  const JsonNode scheme = node.find("prepend_scheme");
  if (scheme.is_null()) {
    // Older files have this in node of a scheme.
    if (!node.flag_or("add_prefix_space", true)) options.prepend = PrependScheme::kNever;
  } else if (scheme.text() == "first") {
    options.prepend = PrependScheme::kFirst;
  } else if (scheme.text() == "never") {
    options.prepend = PrependScheme::kNever;
  } else if (scheme.text() != "always") {
    scheme.refuse("must be always, first or never");
  }
  options.split = node.flag_or("split", true);
  return options;
}

namespace {

std::unique_ptr<PreTokenizer> read_pre_tokenizer_step(const JsonNode& node) {
  const std::string& type = node.type();
  if (type == "ByteLevel") return read_byte_level(node);
  if (type == "Split") return read_split(node);
  if (type == "Metaspace") return metaspace(read_metaspace(node));
  if (type == "FixedLength") return read_fixed_length(node);
  if (type == "Sequence") return read_pre_tokenizer_sequence(node);
  if (auto split = read_character_split(node)) return split;
  node.refuse_type(
      "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
      "Punctuation, Sequence, Split, Whitespace, WhitespaceSplit");
}

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonNode& node) {
  if (node.is_null()) return nullptr;
  return pre_tokenizer([name = StepName(node), step = std::shared_ptr<const PreTokenizer>(
                                                   read_pre_tokenizer_step(node))](Words& words) {
    step->apply(words);
    name.check(words.text.size(), words.limit);
  });
}

}  // namespace accel
