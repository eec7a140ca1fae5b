// Token classification: CoNLL files, a word and its tag per line and blank lines between sentences.
#include "formats/records/conll.h"
#include "formats/records/text_encoding.h"

#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/tagged_words.h"

namespace accel {
namespace {

constexpr int64_t kLastColumn = -1;

struct ConllOptions : TaggedWordOptions {
  InputFile path;
  int64_t word_column = 0;
  int64_t tag_column = kLastColumn;
  std::string comment;
};

/// Reads the words and tags of tokens. Lines of the last column must agree in their number of
/// columns: the last of a line without a tag would be its word.
class ConllColumns {
 public:
  ConllColumns(const ConllOptions& options, bool with_tags)
      : options_(options), with_tags_(with_tags) {}

  TaggedText text_of(const std::vector<ConllToken>& sentence) {
    TaggedText out;
    for (const ConllToken& token : sentence) {
      line_ = token.line;
      out.words.emplace_back(column(token, options_.word_column));
      if (!with_tags_) continue;
      if (options_.tag_column == kLastColumn) check_width(token);
      const auto last = static_cast<int64_t>(token.columns.size()) - 1;
      out.tags.emplace_back(
          column(token, options_.tag_column == kLastColumn ? last : options_.tag_column));
    }
    line_ = sentence.front().line;
    return out;
  }

  /// Of the token read last, or of the sentence's first.
  int64_t line() const { return line_; }

 private:
  void check_width(const ConllToken& token) {
    if (width_ == 0) width_ = token.columns.size();
    if (width_ > 1 && token.columns.size() == width_) return;
    if (width_ < 2) throw FormatError("has one column, and a word and its tag are wanted");
    throw FormatError(
        text("has {} of the {} columns of the first line: name the columns with "
             "'word_column' and 'tag_column'",
             token.columns.size(), width_));
  }

  static std::string_view column(const ConllToken& token, int64_t number) {
    if (number < static_cast<int64_t>(token.columns.size())) {
      return token.columns[static_cast<size_t>(number)];
    }
    throw FormatError(text("has no column {}: columns are counted from 0", number));
  }

  const ConllOptions& options_;
  bool with_tags_;
  size_t width_ = 0;
  int64_t line_ = 0;
};

void each_sentence(std::string_view content, const ConllOptions& options, bool with_tags,
                   const UseTaggedText& use) {
  ConllReader reader(content, options.comment, options.word_column > 0);
  ConllColumns columns(options, with_tags);
  for (std::vector<ConllToken> sentence; reader.next(sentence);) {
    try {
      use(columns.text_of(sentence));
    } catch (const FormatError& error) {
      throw DataError(text("{}:{}: {}", options.path.text, columns.line(), error.what()));
    }
  }
}

class Conll final : public TaggedWords {
 public:
  static constexpr auto kName = "conll";
  static constexpr auto kSummary =
      "CoNLL files: a word and its tag per line, blank lines between sentences, as tokens.";

  static Schema<ConllOptions> schema() {
    return with_tagged_words(
        Schema<ConllOptions>()
            .field("path", &ConllOptions::path,
                   "The file: columns separated by tabs or spaces. Lines of '-DOCSTART-' are "
                   "skipped.")
            .required()
            .field("word_column", &ConllOptions::word_column,
                   "Column of the words, from 0; 1 in CoNLL-U, whose lines of multiword tokens are "
                   "skipped then.",
                   at_least<int64_t>(0))
            .field("tag_column", &ConllOptions::tag_column,
                   "Column of the tags, from 0; -1: the last. CoNLL-2003 has part-of-speech tags "
                   "in column 1, chunks in 2 and entities in 3.",
                   at_least<int64_t>(kLastColumn))
            .field("comment", &ConllOptions::comment,
                   "Lines that begin with this text are skipped; '#' in CoNLL-U. Empty: none, "
                   "because '#' is a word in other files."));
  }

  Conll(const ConllOptions& options, const DatasetContext& context)
      : Conll(options, context.targets, as_utf8(map_file(options.path.text), options.path.text)) {}

 private:
  Conll(const ConllOptions& options, bool with_tags, const SharedBytes& file)
      : TaggedWords(options, {options.path.text,
                              with_tags,
                              file.view,
                              {std::to_string(options.word_column),
                               std::to_string(options.tag_column), options.comment},
                              [&, with_tags](const UseTaggedText& use) {
                                each_sentence(as_text(file.view), options, with_tags, use);
                              }}) {}
};

const Register<Conll> conll;

}  // namespace
}  // namespace accel
