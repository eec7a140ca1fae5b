// Token classification: lists of words with a tag for each word, in JSON Lines.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/label_map.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/json_row_keys.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/token_sequences.h"
#include "data/datasets/text/truncation.h"
#include "data/datasets/text/word_encoder.h"
#include "formats/records/jsonl.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

struct TokenClassificationOptions {
  InputFile path;
  std::string words = "tokens";
  std::string tags = "ner_tags";
  std::vector<std::string> labels;
  InputPath tokenizer;
  Auto<int64_t> max_length;
  int64_t pad_to_multiple_of = 1;
};

struct TaggedLine {
  std::vector<std::string> words;
  std::vector<std::string> tags;  ///< numbers as decimal text; empty if not requested
};

const Json& list_in(const Json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end()) throw FormatError(accel::text("has no field '{}'", field));
  if (!found->is_array()) throw FormatError(accel::text("has no list in the field '{}'", field));
  return *found;
}

TaggedLine read_tagged_line(const Json& row, const TokenClassificationOptions& options) {
  TaggedLine out;
  for (const Json& word : list_in(row, options.words)) {
    if (!word.is_string()) {
      throw FormatError(
          accel::text("has a word in the field '{}' that is not a string", options.words));
    }
    out.words.push_back(word.get<std::string>());
  }
  if (out.words.empty())
    throw FormatError(accel::text("has no words in the field '{}'", options.words));
  if (options.tags.empty()) return out;
  for (const Json& tag : list_in(row, options.tags)) {
    if (!tag.is_string() && !tag.is_number_integer()) {
      throw FormatError(accel::text(
          "has a tag in the field '{}' that is neither a text nor a whole number", options.tags));
    }
    out.tags.push_back(tag.is_string() ? tag.get<std::string>() : tag.dump());
  }
  if (out.tags.size() != out.words.size()) {
    throw FormatError(accel::text("has {} words in the field '{}' and {} tags in the field '{}'",
                                  out.words.size(), options.words, out.tags.size(), options.tags));
  }
  return out;
}

/// Calls `use` with the words and tags of each row; errors contain its line number.
template <class Use>
void each_tagged_line(std::string_view text, const TokenClassificationOptions& options,
                      const Use& use) {
  each_json_row(text, [&](std::string_view row, int64_t line) {
    try {
      use(read_tagged_line(read_chat_row(row), options));
    } catch (const FormatError& error) {
      throw DataError(options.path.text + ":" + std::to_string(line) + ": " + error.what());
    }
  });
}

/// The class of a tag: its index in the labels, or the tag itself if labels are given and it is a
/// number.
int64_t number_of(const std::string& tag, const LabelMap& labels) {
  if (const std::optional<int64_t> label = labels.find(tag)) return *label;
  for (int64_t i = 0; i < labels.count(); ++i) {
    if (tag == std::to_string(i)) return i;
  }
  throw FormatError(
      accel::text("has the tag '{}', which is not one of the {} labels", tag, labels.count()));
}

/// The tag of a word for its first token; kIgnoredTarget for other tokens.
std::vector<int32_t> on_first_tokens(const WordTokens& tokens, const std::vector<int32_t>& tags) {
  std::vector<int32_t> out;
  int32_t before = WordTokens::kNoWord;
  for (const int32_t word : tokens.words) {
    const bool first = word != WordTokens::kNoWord && word != before;
    out.push_back(first ? tags[static_cast<size_t>(word)] : static_cast<int32_t>(kIgnoredTarget));
    before = word;
  }
  return out;
}

class TokenClassification final : public Dataset, public RowKeys {
 public:
  static constexpr auto kName = "token_classification";
  static constexpr auto kRenamedFrom = "tagged_words";
  static constexpr auto kSummary =
      "JSON Lines: a list of words and a tag for each, such as names to be found, as tokens.";

  static Schema<TokenClassificationOptions> schema();

  TokenClassification(const TokenClassificationOptions& given, const DatasetContext& context)
      : TokenClassification(given, load_tokenizer(given.tokenizer.text), context.targets) {}

  int64_t size() const override { return sequences_.size(); }

  Sample sample(int64_t index) const override {
    Sample sample = sequences_.sample(index);
    sample.target = std::exchange(sample.segments, {});
    return sample;
  }

  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<uint64_t> row_keys(const std::string& column) const override {
    return json_row_keys(path_, column);
  }

 private:
  TokenClassification(TokenClassificationOptions options,
                      const std::shared_ptr<const Tokenizer>& tokenizer, bool with_tags) {
    if (!with_tags) options.tags.clear();
    path_ = options.path.text;
    const SharedBytes file = map_file(options.path.text);
    const LabelMap labels = labels_of(as_text(file.view), options);
    const TruncationConfig cut = cut_for(*tokenizer, options.max_length);
    read(as_text(file.view), options, labels, WordEncoder(tokenizer, cut));
    if (size() == 0) throw DataError(accel::text("'{}' has no lines", options.path.text));
    shape_ = {.input = {cut.max_length},
              .input_type = DType::kI64,
              .target = {cut.max_length},
              .classes = labels.count(),
              .labels = labels.names(),
              .padding = Padding{.input = tokenizer->special().pad.value_or(0),
                                 .multiple = options.pad_to_multiple_of}};
    describe_tokens(*tokenizer, shape_);
    fingerprint_ = Fingerprint()
                       .add_content(file.view)
                       .add(tokenizer->digest())
                       .add(options.words)
                       .add(options.tags)
                       .add(cut.max_length)
                       .add(static_cast<int64_t>(cut.strategy))
                       .add(cut.from_left)
                       .text();
  }

  static LabelMap labels_of(std::string_view text, const TokenClassificationOptions& options) {
    if (!options.labels.empty()) return LabelMap::given(options.labels, "labels");
    TextSet seen;
    each_tagged_line(text, options, [&](const TaggedLine& line) {
      seen.insert(line.tags.begin(), line.tags.end());
    });
    return LabelMap::found(seen);
  }

  void read(std::string_view text, const TokenClassificationOptions& options,
            const LabelMap& labels, const WordEncoder& encoder) {
    TokenSequencesBuilder builder;
    each_tagged_line(text, options, [&](const TaggedLine& line) {
      std::vector<int32_t> tags(line.words.size(), 0);  // class 0 if not requested
      for (size_t i = 0; i < line.tags.size(); ++i) {
        tags[i] = static_cast<int32_t>(number_of(line.tags[i], labels));
      }
      const WordTokens tokens = encoder.encode(line.words);
      builder.add(tokens.ids, on_first_tokens(tokens, tags));
    });
    sequences_ = std::move(builder).finish();
  }

  std::string path_;
  TokenSequences sequences_;  // its segments hold the targets
  DataShape shape_;
  std::string fingerprint_;
};

Schema<TokenClassificationOptions> TokenClassification::schema() {
  return Schema<TokenClassificationOptions>()
      .field("path", &TokenClassificationOptions::path,
             "The file: an object a line, or an array of objects.")
      .required()
      .field("words", &TokenClassificationOptions::words, "Field of the words, a list of texts.")
      .field("tags", &TokenClassificationOptions::tags,
             "Field of the tags, a list of texts or numbers. The first token of a word carries its "
             "tag, the others none.")
      .field("labels", &TokenClassificationOptions::labels,
             "Tags in the order of their numbers, such as [O, B-PER, I-PER]; empty: the tags "
             "found, sorted.")
      .field("tokenizer", &TokenClassificationOptions::tokenizer,
             "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
      .required()
      .field("max_length", &TokenClassificationOptions::max_length,
             "Tokens, special ones included, beyond which a list of words is cut; auto: as the "
             "tokenizer's file has it, else 128.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("pad_to_multiple_of", &TokenClassificationOptions::pad_to_multiple_of,
             "Micro-batches are filled to their longest text, rounded up to a multiple of this.",
             at_least<int64_t>(1))
      .renamed_from("pad_multiple")
      .check([](const TokenClassificationOptions& options, const Node& node, Reading& reading) {
        if (options.tags.empty()) reading.problems.error(node.where, "'tags' names no field");
      });
}

const Register<TokenClassification> token_classification;

}  // namespace
}  // namespace accel
