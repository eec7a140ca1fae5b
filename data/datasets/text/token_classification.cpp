// Token classification: lists of words with a tag for each word, in JSON Lines, Parquet or Arrow.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/api/row_values.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/datasets/hub/hub_files.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/json_row_keys.h"
#include "data/datasets/text/tagged_words.h"
#include "formats/records/jsonl.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

struct TokenClassificationOptions : TaggedWordOptions {
  InputFile path;
  std::string words = "tokens";
  std::string tags = "ner_tags";
};

const Json& list_in(const Json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end()) throw FormatError(accel::text("has no field '{}'", field));
  if (!found->is_array()) throw FormatError(accel::text("has no list in the field '{}'", field));
  return *found;
}

TaggedText read_tagged_line(const Json& row, const TokenClassificationOptions& options) {
  TaggedText out;
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
void each_tagged_line(std::string_view text, const TokenClassificationOptions& options,
                      const UseTaggedText& use) {
  each_json_row(text, [&](std::string_view row, int64_t line) {
    try {
      use(read_tagged_line(read_chat_row(row), options));
    } catch (const FormatError& error) {
      throw DataError(options.path.text + ":" + std::to_string(line) + ": " + error.what());
    }
  });
}

bool is_arrow_file(const std::string& path) {
  return path.ends_with(".parquet") || path.ends_with(".arrow");
}

/// The columns of words and tags of a Parquet or Arrow file.
class TaggedColumns {
 public:
  explicit TaggedColumns(const std::string& path)
      : rows_({{path}, {}},
              path.ends_with(".parquet") ? ArrowFormat::kParquet : ArrowFormat::kIpc) {}

  /// Names of the classes of `tags`; empty for tags that are no ClassLabel.
  std::vector<std::string> tag_names(const std::string& tags) const {
    return rows_.class_names(tags, ArrowField::kNames);
  }

  /// As each_tagged_line().
  void each(const TokenClassificationOptions& options, const UseTaggedText& use) const {
    std::vector<std::string> wanted = {options.words};
    if (!options.tags.empty()) wanted.push_back(options.tags);
    const auto reader =
        rows_.open(wanted, std::vector<ArrowField>(wanted.size(), ArrowField::kNames));
    for (std::vector<std::string_view> fields; reader->next(fields);) {
      Json row;
      for (size_t i = 0; i < wanted.size(); ++i) row[wanted[i]] = Json::parse(fields[i]);
      try {
        use(read_tagged_line(row, options));
      } catch (const FormatError& error) {
        throw DataError(reader->location() + ": " + error.what());
      }
    }
  }

 private:
  ArrowRows rows_;
};

class TokenClassification final : public TaggedWords, public RowKeys {
 public:
  static constexpr auto kName = "token_classification";
  static constexpr auto kRenamedFrom = "tagged_words";
  static constexpr auto kSummary =
      "JSON Lines, Parquet or Arrow: a list of words and a tag for each, such as names to be "
      "found, "
      "as tokens.";

  static Schema<TokenClassificationOptions> schema();

  TokenClassification(const TokenClassificationOptions& options, const DatasetContext& context)
      : TokenClassification(options, context.targets, map_file(options.path.text)) {}

  std::vector<uint64_t> row_keys(const std::string& column) const override {
    if (is_packed()) refuse_packed_groups(column, "texts");
    if (is_arrow_file(path_))
      return column_keys({.location = {path_}, .streaming = {}, .choice = {}}, column);
    return json_row_keys(path_, column);
  }

 private:
  TokenClassification(TokenClassificationOptions options, bool with_tags, const SharedBytes& file)
      : TaggedWords(options, file_of(options, with_tags, file)), path_(options.path.text) {}

  static TaggedFile file_of(TokenClassificationOptions& options, bool with_tags,
                            const SharedBytes& file) {
    if (!with_tags) options.tags.clear();
    if (is_arrow_file(options.path.text)) return columns_of(options, file);
    return {options.path.text,
            with_tags,
            file.view,
            {options.words, options.tags},
            [&](const UseTaggedText& use) { each_tagged_line(as_text(file.view), options, use); }};
  }

  static TaggedFile columns_of(TokenClassificationOptions& options, const SharedBytes& file) {
    const auto columns = std::make_shared<const TaggedColumns>(options.path.text);
    if (!options.tags.empty() && options.labels.empty()) {
      options.labels = columns->tag_names(options.tags);
    }
    return {options.path.text,
            !options.tags.empty(),
            file.view,
            {options.words, options.tags},
            [&options, columns](const UseTaggedText& use) { columns->each(options, use); }};
  }

  std::string path_;
};

Schema<TokenClassificationOptions> TokenClassification::schema() {
  return with_tagged_words(Schema<TokenClassificationOptions>()
                               .field("path", &TokenClassificationOptions::path,
                                      "The file: an object a line, or an array of objects, or a "
                                      ".parquet or .arrow file.")
                               .required()
                               .field("words", &TokenClassificationOptions::words,
                                      "Field of the words, a list of texts.")
                               .field("tags", &TokenClassificationOptions::tags,
                                      "Field of the tags, a list of texts or numbers; of a "
                                      "ClassLabel, its names are the labels. The first token of a "
                                      "word carries its tag, the others none."))
      .renamed_from("pad_multiple")
      .check([](const TokenClassificationOptions& options, const Node& node, Reading& reading) {
        if (options.tags.empty()) reading.problems.error(node.where, "'tags' names no field");
      });
}

const Register<TokenClassification> token_classification;

}  // namespace
}  // namespace accel
