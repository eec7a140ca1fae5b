// Lists of words with a tag for each, as lines of JSON.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/dataset.h"
#include "core/error.h"
#include "core/input_path.h"
#include "core/registry.h"
#include "core/targets.h"
#include "data/chat_encoder.h"
#include "data/fingerprint.h"
#include "data/json_lines.h"
#include "data/label_map.h"
#include "data/text_columns.h"
#include "data/token_sequences.h"
#include "data/truncation.h"
#include "data/word_encoder.h"
#include "runner/formats/bytes.h"
#include "runner/formats/format_error.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

struct TaggedWordsOptions {
  InputFile path;
  std::string words = "tokens";
  std::string tags = "ner_tags";
  std::vector<std::string> labels;
  InputPath tokenizer;
  Auto<int64_t> max_length;
  int64_t pad_multiple = 1;
};

struct TaggedLine {
  std::vector<std::string> words;
  std::vector<std::string> tags;  ///< numbers as their digits; empty when nobody asks for them
};

const Json& list_in(const Json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end()) throw FormatError("has no field '" + field + "'");
  if (!found->is_array()) throw FormatError("has no list in the field '" + field + "'");
  return *found;
}

TaggedLine read_tagged_line(const Json& row, const TaggedWordsOptions& options) {
  TaggedLine out;
  for (const Json& word : list_in(row, options.words)) {
    if (!word.is_string()) {
      throw FormatError("has a word in the field '" + options.words + "' that is no text");
    }
    out.words.push_back(word.get<std::string>());
  }
  if (out.words.empty()) throw FormatError("has no words in the field '" + options.words + "'");
  if (options.tags.empty()) return out;
  for (const Json& tag : list_in(row, options.tags)) {
    if (!tag.is_string() && !tag.is_number_integer()) {
      throw FormatError("has a tag in the field '" + options.tags +
                        "' that is neither a text nor a whole number");
    }
    out.tags.push_back(tag.is_string() ? tag.get<std::string>() : tag.dump());
  }
  if (out.tags.size() != out.words.size()) {
    throw FormatError("has " + std::to_string(out.words.size()) + " words in the field '" +
                      options.words + "' and " + std::to_string(out.tags.size()) +
                      " tags in the field '" + options.tags + "'");
  }
  return out;
}

/// Calls `use` with each line's words; what is wrong is told with the line's number.
template <class Use>
void each_tagged_line(std::string_view text, const TaggedWordsOptions& options, const Use& use) {
  each_line(text, [&](std::string_view line, int64_t number) {
    try {
      use(read_tagged_line(read_chat_row(line), options));
    } catch (const FormatError& error) {
      throw DataError(options.path.text + ":" + std::to_string(number) + ": " + error.what());
    }
  });
}

/// A tag's number: its place among the labels, or where these were given and it is a number, that.
int64_t number_of(const std::string& tag, const LabelMap& labels) {
  if (const std::optional<int64_t> label = labels.find(tag)) return *label;
  for (int64_t i = 0; i < labels.count(); ++i) {
    if (tag == std::to_string(i)) return i;
  }
  throw FormatError("has the tag '" + tag + "', which is none of the " +
                    std::to_string(labels.count()) + " labels");
}

/// For each token its word's tag where it is the word's first, and elsewhere the ignored one.
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

class TaggedWords final : public Dataset {
 public:
  static constexpr auto kName = "tagged_words";
  static constexpr auto kSummary =
      "JSON Lines: a list of words and a tag for each, such as names to be found, as tokens.";

  static Schema<TaggedWordsOptions> schema();

  TaggedWords(const TaggedWordsOptions& given, const DatasetContext& context)
      : TaggedWords(given, load_tokenizer(given.tokenizer.text), context.targets) {}

  int64_t size() const override { return sequences_.size(); }

  Sample sample(int64_t index) const override {
    Sample sample = sequences_.sample(index);
    sample.target = std::exchange(sample.segments, {});
    return sample;
  }

  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  TaggedWords(TaggedWordsOptions options, std::shared_ptr<const Tokenizer> tokenizer,
              bool with_tags) {
    if (!with_tags) options.tags.clear();
    const SharedBytes file = map_file(options.path.text);
    const LabelMap labels = labels_of(as_text(file.view), options);
    const TextCut cut = cut_for(*tokenizer, options.max_length);
    read(as_text(file.view), options, labels, WordEncoder(tokenizer, cut));
    if (size() == 0) throw DataError("'" + options.path.text + "' has no lines");
    shape_ = {.input = {cut.max_length},
              .input_type = DType::kI64,
              .target = {cut.max_length},
              .classes = labels.count(),
              .labels = labels.names(),
              .padding = Padding{.input = tokenizer->special().pad.value_or(0),
                                 .multiple = options.pad_multiple}};
    describe_tokens(*tokenizer, shape_);
    fingerprint_ = Fingerprint()
                       .add_content(file.view)
                       .add(tokenizer->digest())
                       .add(options.words)
                       .add(options.tags)
                       .add(cut.max_length)
                       .add(static_cast<int64_t>(cut.share))
                       .add(cut.from_left)
                       .text();
  }

  static LabelMap labels_of(std::string_view text, const TaggedWordsOptions& options) {
    if (!options.labels.empty()) return LabelMap::given(options.labels, "labels");
    TextSet seen;
    each_tagged_line(text, options, [&](const TaggedLine& line) {
      seen.insert(line.tags.begin(), line.tags.end());
    });
    return LabelMap::found(seen);
  }

  void read(std::string_view text, const TaggedWordsOptions& options, const LabelMap& labels,
            const WordEncoder& encoder) {
    TokenSequencesBuilder builder;
    each_tagged_line(text, options, [&](const TaggedLine& line) {
      std::vector<int32_t> tags(line.words.size(), 0);  // 0: nobody asks
      for (size_t i = 0; i < line.tags.size(); ++i) {
        tags[i] = static_cast<int32_t>(number_of(line.tags[i], labels));
      }
      const WordTokens tokens = encoder.encode(line.words);
      builder.add(tokens.ids, on_first_tokens(tokens, tags));
    });
    sequences_ = std::move(builder).finish();
  }

  TokenSequences sequences_;  // whose segments are the targets
  DataShape shape_;
  std::string fingerprint_;
};

Schema<TaggedWordsOptions> TaggedWords::schema() {
  return Schema<TaggedWordsOptions>()
      .field("path", &TaggedWordsOptions::path, "The file, an object a line.")
      .required()
      .field("words", &TaggedWordsOptions::words, "Field of the words, a list of texts.")
      .field("tags", &TaggedWordsOptions::tags,
             "Field of the tags, a list of texts or numbers. The first token of a word carries its "
             "tag, the others none.")
      .field("labels", &TaggedWordsOptions::labels,
             "Tags in the order of their numbers, such as [O, B-PER, I-PER]; empty: those found, "
             "sorted.")
      .field("tokenizer", &TaggedWordsOptions::tokenizer,
             "A tokenizer.json, the folder that holds it, or SentencePiece's .model.")
      .required()
      .field("max_length", &TaggedWordsOptions::max_length,
             "Tokens, special ones included, beyond which a list of words is cut; auto: as the "
             "tokenizer's file has it, else 128.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("pad_multiple", &TaggedWordsOptions::pad_multiple,
             "Micro-batches are filled to their longest text, rounded up to a multiple of this.",
             at_least<int64_t>(1))
      .check([](const TaggedWordsOptions& options, const Node& node, Reading& reading) {
        if (options.tags.empty()) reading.problems.error(node.where, "'tags' names no field");
      });
}

const Register<TaggedWords> tagged_words;

}  // namespace
}  // namespace accel
