#include <functional>

#include "runner/formats/format_error.h"
#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/pre_tokenizer.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

constexpr auto kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr int64_t kLongestPiece = 1'000'000;

class Cutting final : public PreTokenizer {
 public:
  explicit Cutting(std::function<void(Words&)> cut) : cut_(std::move(cut)) {}

  void apply(Words& words) const override { cut_(words); }

 private:
  std::function<void(Words&)> cut_;
};

std::unique_ptr<PreTokenizer> cutting(std::function<void(Words&)> cut) {
  return std::make_unique<Cutting>(std::move(cut));
}

std::unique_ptr<PreTokenizer> at_characters(SplitBehavior behavior,
                                            std::function<bool(uint32_t)> matches) {
  return cutting([behavior, matches = std::move(matches)](Words& words) {
    split_at_characters(words, behavior, matches);
  });
}

std::unique_ptr<PreTokenizer> read_byte_level(const JsonPlace& place) {
  place.only({"add_prefix_space", "trim_offsets", "use_regex"});
  const bool prefix = place.flag_or("add_prefix_space", true);
  const bool split = place.flag_or("use_regex", true);
  place.flag_or("trim_offsets", true);  // of offsets, which ids do not need
  return cutting([prefix, split, pattern = Pattern::regex(kByteLevelPattern)](Words& words) {
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

std::unique_ptr<PreTokenizer> read_split(const JsonPlace& place) {
  place.only({"pattern", "behavior", "invert"});
  return cutting([pattern = Pattern::read(place.at("pattern")),
                  behavior = read_behavior(place.at("behavior")),
                  inverted = place.flag_or("invert", false)](Words& words) {
    split_at_pattern(words, behavior, pattern, inverted);
  });
}

std::unique_ptr<PreTokenizer> metaspace(const MetaspaceOptions& options) {
  return cutting([options, pattern = Pattern::literal(options.mark)](Words& words) {
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

/// Runs of what words are made of, and runs of all else but white space.
void cut_word_runs(Words& words) {
  split_at_characters(words, SplitBehavior::kRemoved, is_white);
  split_at_characters(words, SplitBehavior::kContiguous, is_word_character);
}

std::unique_ptr<PreTokenizer> read_fixed_length(const JsonPlace& place) {
  place.only({"length"});
  const auto length = static_cast<size_t>(place.at("length").integer(1, kLongestPiece));
  return cutting([length](Words& words) {
    split_words(words, SplitBehavior::kIsolated,
                [&](std::string_view word, std::vector<SplitPart>& parts) {
                  size_t begin = 0, characters = 0;
                  for (size_t at = 0; at < word.size();) {
                    at += character_at(word, at).bytes;
                    if (++characters % length != 0 && at < word.size()) continue;
                    parts.push_back({{begin, at}, false});
                    begin = at;
                  }
                });
  });
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer_sequence(const JsonPlace& place) {
  place.only({"pretokenizers"});
  std::vector<std::shared_ptr<PreTokenizer>> parts;
  for (const JsonPlace& part : place.at("pretokenizers").items()) {
    if (part.is_null()) part.refuse("must be an object");
    parts.push_back(read_pre_tokenizer(part));
  }
  return cutting([parts = std::move(parts)](Words& words) {
    for (const auto& part : parts) part->apply(words);
  });
}

/// One of the kinds that only look at characters; null for another.
std::unique_ptr<PreTokenizer> read_character_split(const JsonPlace& place) {
  const std::string& type = place.type();
  if (type == "WhitespaceSplit") {
    place.only({});
    return at_characters(SplitBehavior::kRemoved, is_white);
  }
  if (type == "Whitespace") {
    place.only({});
    return cutting(cut_word_runs);
  }
  if (type == "BertPreTokenizer") {
    place.only({});
    return cutting([](Words& words) {
      split_at_characters(words, SplitBehavior::kRemoved, is_white);
      split_at_characters(words, SplitBehavior::kIsolated, is_punctuation);
    });
  }
  if (type == "Punctuation") {
    place.only({"behavior"});
    const JsonPlace behavior = place.find("behavior");
    return at_characters(behavior.is_null() ? SplitBehavior::kIsolated : read_behavior(behavior),
                         is_punctuation);
  }
  if (type == "Digits") {
    place.only({"individual_digits"});
    return at_characters(place.flag_or("individual_digits", false) ? SplitBehavior::kIsolated
                                                                   : SplitBehavior::kContiguous,
                         is_numeric);
  }
  if (type == "CharDelimiterSplit") {
    place.only({"delimiter"});
    return at_characters(SplitBehavior::kRemoved, [delimiter = place.at("delimiter").character()](
                                                      uint32_t code) { return code == delimiter; });
  }
  return nullptr;
}

}  // namespace

MetaspaceOptions read_metaspace(const JsonPlace& place) {
  place.only({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  MetaspaceOptions options;
  const JsonPlace mark = place.find("replacement");
  if (!mark.is_null()) {
    mark.character();
    options.mark = mark.text();
  }
  const JsonPlace copy = place.find("str_rep");
  if (!copy.is_null() && copy.text() != options.mark) copy.refuse("must be the 'replacement'");
  const JsonPlace scheme = place.find("prepend_scheme");
  if (scheme.is_null()) {
    // Files from before there were schemes have this.
    if (!place.flag_or("add_prefix_space", true)) options.prepend = PrependScheme::kNever;
  } else if (scheme.text() == "first") {
    options.prepend = PrependScheme::kFirst;
  } else if (scheme.text() == "never") {
    options.prepend = PrependScheme::kNever;
  } else if (scheme.text() != "always") {
    scheme.refuse("must be always, first or never");
  }
  options.split = place.flag_or("split", true);
  return options;
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonPlace& place) {
  if (place.is_null()) return nullptr;
  const std::string& type = place.type();
  if (type == "ByteLevel") return read_byte_level(place);
  if (type == "Split") return read_split(place);
  if (type == "Metaspace") return metaspace(read_metaspace(place));
  if (type == "FixedLength") return read_fixed_length(place);
  if (type == "Sequence") return read_pre_tokenizer_sequence(place);
  if (auto split = read_character_split(place)) return split;
  place.refuse_type(
      "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
      "Punctuation, Sequence, Split, Whitespace, WhitespaceSplit");
}

}  // namespace accel
