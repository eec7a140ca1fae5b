// Columns of token ids in Parquet or Arrow files: data tokenized in Python.
#include <algorithm>
#include <cstring>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/hub/hub_files.h"
#include "data/datasets/label_map.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/token_sequences.h"
#include "data/loader/epoch_order.h"

namespace accel {
namespace {

constexpr auto kMask = "attention_mask";

struct HubTokensOptions : HubChoiceOptions {
  DataPath location;
  StreamingSection streaming;
  std::string input = "input_ids";
  std::string token_targets;
  std::string target;
  int64_t vocab_size = 0;
  int64_t max_length = 0;
  int64_t pad = 0;
  int64_t pad_to_multiple_of = 1;
};

class HubTokens final : public Dataset, public KnowsLengths, public ClassLabels, public RowKeys {
 public:
  static constexpr auto kName = "hf_tokens";
  static constexpr auto kSummary =
      "Lists of token numbers in columns of Parquet or Arrow files, as Python tokenized them.";

  static Schema<HubTokensOptions> schema();

  HubTokens(const HubTokensOptions& options, const DatasetContext& context)
      : path_(options.location.text),
        data_{options.location, options.streaming, choice_of(options, context.train)},
        options_(options) {
    if (!context.targets) options_.target = options_.token_targets = "";
    const ArrowRows rows = open_columns(data_);
    read(rows);
    if (size() == 0) throw DataError(accel::text("'{}' has no rows", path_));
    Fingerprint print;
    for (const auto& part : rows.contents()) print.add_content(part.bytes);
    for (const std::string& column : {options_.input, options_.token_targets, options_.target}) {
      print.add(column);
    }
    fingerprint_ = print.add(options_.max_length).text();
  }

  int64_t size() const override { return sequences_.size(); }
  int64_t length(int64_t index) const override { return sequences_.length(index); }
  std::vector<uint64_t> row_keys(const std::string& column) const override {
    return column_keys(data_, column);
  }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t class_of(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

  Sample sample(int64_t index) const override {
    Sample sample = sequences_.sample(index);
    if (!options_.token_targets.empty()) {
      sample.target = std::exchange(sample.segments, {});
      // Shifted as in transformers: the target of a position is the next token.
      const auto from = sample.target.as<int64_t>();
      const auto to = sample.target.mutable_as<int64_t>();
      std::copy(from.begin() + 1, from.end(), to.begin());
      to.back() = kIgnoredTarget;
    } else if (!options_.target.empty()) {
      sample.target = Array::label(labels_[static_cast<size_t>(index)]);
    } else {
      sample.target = following(sample.input);
    }
    return sample;
  }

  DataShape shape() const override {
    DataShape shape{.input = {options_.max_length},
                    .input_type = DType::kI64,
                    .classes = classes_.count(),
                    .vocab = options_.vocab_size,
                    .labels = classes_.names(),
                    .labels_found = classes_.is_found(),
                    .padding = Padding{options_.pad, options_.pad_to_multiple_of}};
    if (options_.target.empty()) shape.target = shape.input;
    return shape;
  }

 private:
  static std::vector<int32_t> numbers_in(std::string_view field, size_t most) {
    std::vector<int32_t> out;
    const size_t count = std::min(field.size() / sizeof(int64_t), most);
    for (size_t i = 0; i < count; ++i) {
      int64_t number = 0;
      std::memcpy(&number, field.data() + i * sizeof number, sizeof number);
      const bool fits = number >= INT32_MIN && number <= INT32_MAX;
      out.push_back(fits ? static_cast<int32_t>(number) : INT32_MIN);
    }
    return out;
  }

  bool has_mask(const ArrowRows& rows) const {
    const std::vector<ArrowColumn> columns = rows.columns();
    return options_.input != kMask &&
           std::any_of(columns.begin(), columns.end(),
                       [](const ArrowColumn& column) { return column.name == kMask; });
  }

  /// The number of tokens before the padding, which the last field masks. Throws DataError for
  /// padding elsewhere.
  static size_t unmasked(const std::vector<std::string_view>& fields, const std::string& place) {
    const std::vector<int32_t> mask = numbers_in(fields.back(), SIZE_MAX);
    const auto end = std::find(mask.begin(), mask.end(), 0);
    const bool right = std::all_of(end, mask.end(), [](int32_t one) { return one == 0; });
    if (mask.size() * sizeof(int64_t) == fields[0].size() && right) {
      return static_cast<size_t>(end - mask.begin());
    }
    throw DataError(text("{} has padding before or between tokens in '{}'", place, kMask),
                    "write the tokens without padding: batches are padded on the right");
  }

  void check(const std::vector<int32_t>& tokens, bool targets, const std::string& place) const {
    for (const int32_t token : tokens) {
      if ((token >= 0 && token < options_.vocab_size) || (targets && token == kIgnoredTarget))
        continue;
      throw DataError(accel::text("{} holds a token that is not below the 'vocab_size' of {}",
                                  place, options_.vocab_size),
                      "set the 'vocab_size' of their tokenizer");
    }
  }

  void read(const ArrowRows& rows) {
    std::vector<std::string> wanted = {options_.input};
    std::vector<ArrowField> kinds = {ArrowField::kNumbers};
    if (!options_.token_targets.empty()) {
      wanted.push_back(options_.token_targets);
      kinds.push_back(ArrowField::kNumbers);
    } else if (!options_.target.empty()) {
      wanted.push_back(options_.target);
      kinds.push_back(ArrowField::kText);
    }
    const bool masked = has_mask(rows);
    if (masked) {
      wanted.emplace_back(kMask);
      kinds.push_back(ArrowField::kNumbers);
    }
    std::vector<std::string> labels;
    TokenSequencesBuilder builder(user_cache());
    size_t longest = 0;
    const size_t most =
        options_.max_length > 0 ? static_cast<size_t>(options_.max_length) : SIZE_MAX;
    const auto reader = rows.open(wanted, kinds);
    for (std::vector<std::string_view> fields; reader->next(fields);) {
      const size_t kept = masked ? unmasked(fields, reader->location()) : SIZE_MAX;
      const std::vector<int32_t> tokens = numbers_in(fields[0], std::min(most, kept));
      if (tokens.empty()) throw DataError(accel::text("{} has no token", reader->location()));
      check(tokens, false, reader->location());
      longest = std::max(longest, tokens.size());
      if (options_.token_targets.empty()) {
        builder.add(tokens);
        if (!options_.target.empty()) labels.emplace_back(fields[1]);
        continue;
      }
      if (fields[0].size() != fields[1].size()) {
        throw DataError(accel::text("{} has {} tokens and {} targets", reader->location(),
                                    fields[0].size() / 8, fields[1].size() / 8));
      }
      const std::vector<int32_t> targets = numbers_in(fields[1], std::min(most, kept));
      check(targets, true, reader->location());
      builder.add(tokens, targets);
    }
    sequences_ = std::move(builder).finish();
    if (options_.max_length == 0) options_.max_length = static_cast<int64_t>(longest);
    if (!options_.target.empty()) label(labels, rows.class_names(options_.target));
  }

  void label(const std::vector<std::string>& found, const std::vector<std::string>& named) {
    classes_ = named.empty() ? LabelMap::found({found.begin(), found.end()})
                             : LabelMap::given(named, "labels");
    for (const std::string& label : found) labels_.push_back(classes_.find(label).value());
  }

  std::string path_;
  HubData data_;
  HubTokensOptions options_;
  TokenSequences sequences_;  // its segments hold the targets, if there are any
  LabelMap classes_;
  std::vector<int64_t> labels_;
  std::string fingerprint_;
};

Schema<HubTokensOptions> HubTokens::schema() {
  using Options = HubTokensOptions;
  const auto count = at_least<int64_t>(0);
  return with_hub_choice(
             with_streaming(Schema<Options>(), kHubDataHelp)
                 .field("input", &Options::input, "Column of the tokens, lists of whole numbers.")
                 .field("token_targets", &Options::token_targets,
                        "Column with a target for each token, as transformers' `labels`: -100 is "
                        "ignored, and each position predicts the target of the next one. Empty: "
                        "the next tokens.")
                 .field("target", &Options::target,
                        "Column with a class label, for sequence classification.")
                 .field("vocab_size", &Options::vocab_size, "All tokens are below this.",
                        at_least<int64_t>(1))
                 .required()
                 .renamed_from("vocab")
                 .field("max_length", &Options::max_length,
                        "Tokens beyond which a sequence is cut; 0: none is.", count)
                 .field("pad", &Options::pad, "The padding token.", count)
                 .field("pad_to_multiple_of", &Options::pad_to_multiple_of,
                        "Micro-batches are filled to their longest sequence, rounded up to a "
                        "multiple of this.",
                        at_least<int64_t>(1))
                 .renamed_from("pad_multiple"))
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (!options.target.empty() && !options.token_targets.empty()) {
          reading.problems.error(node.where, "'target' and 'token_targets' exclude one another");
        }
        if (options.pad >= options.vocab_size && options.vocab_size > 0) {
          reading.problems.error(node.where, "'pad' must be below 'vocab_size'");
        }
      });
}

const Register<HubTokens> hub_tokens;

}  // namespace
}  // namespace accel
