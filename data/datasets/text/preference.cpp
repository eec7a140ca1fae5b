// Preference pairs in JSON Lines: a prompt with a chosen and a rejected answer.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/api/sequence_pairs.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/chat_source.h"
#include "data/datasets/text/json_row_keys.h"
#include "data/datasets/text/preference_encoder.h"
#include "data/datasets/text/preference_rows.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/token_sequences.h"
#include "data/loader/epoch_order.h"
#include "formats/records/jsonl.h"

namespace accel {

template <>
struct EnumNames<KeptEnd> {
  static constexpr std::pair<KeptEnd, const char*> kValues[] = {{KeptEnd::kStart, "keep_start"},
                                                                {KeptEnd::kEnd, "keep_end"}};
};

namespace {

struct PreferenceOptions : PreferenceFields {
  InputFile path;
  InputPath tokenizer;
  InputFile chat_template;
  int64_t max_length = 1024;
  KeptEnd truncation_mode = KeptEnd::kStart;
  int64_t pad_to_multiple_of = 1;
  OnBadSample on_bad_sample;
};

/// Segments of the stored tokens: twice the number of the sequence, plus 1 in its completion.
constexpr int32_t kInSecond = 2, kInCompletion = 1;

class Preference final : public Dataset, public SkipsSamples, public KnowsLengths, public RowKeys {
 public:
  static constexpr auto kName = "preference";
  static constexpr const char* kHintFor[] = {"preferences", "paired", "preference_pairs",
                                             "chosen_rejected"};
  static constexpr auto kSummary =
      "JSON Lines of prompts with a chosen and a rejected answer, as texts or messages.";

  static Schema<PreferenceOptions> schema();

  explicit Preference(const PreferenceOptions& options)
      : path_(options.path.text),
        tokenizer_(load_tokenizer(options.tokenizer.text)),
        max_length_(options.max_length),
        kept_end_(options.truncation_mode),
        bad_(options.on_bad_sample, options.path.text),
        padding_{.input = tokenizer_->special().pad.value_or(0),
                 .multiple = options.pad_to_multiple_of} {
    const SharedBytes file = map_file(options.path.text);
    const std::string source = template_source(options);
    read(options, file, source);
    bad_.tell(sequences_.size());
    if (size() == 0) throw DataError(accel::text("'{}' has no lines", options.path.text));
    fingerprint_ = Fingerprint()
                       .add_content(file.view)
                       .add(tokenizer_->digest())
                       .add(source)
                       .add(max_length_)
                       .add(static_cast<int64_t>(kept_end_))
                       .add(options.identity())
                       .text();
  }

  int64_t size() const override { return sequences_.size(); }

  Sample sample(int64_t index) const override {
    Sample sample = sequences_.sample(index);
    sample.target = Array(DType::kI64, {sample.input.count()});
    const auto ids = sample.input.as<int64_t>();
    const auto marks = sample.segments.mutable_as<int64_t>();
    const auto targets = sample.target.mutable_as<int64_t>();
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool learnt = i + 1 < ids.size() && (marks[i + 1] & kInCompletion) != 0 &&
                          (marks[i] & kInSecond) == (marks[i + 1] & kInSecond);
      targets[i] = learnt ? ids[i + 1] : kIgnoredTarget;
    }
    for (int64_t& mark : marks) mark = (mark & kInSecond) != 0 ? 1 : 0;
    return sample;
  }

  DataShape shape() const override {
    DataShape shape{.input = {max_length_},
                    .input_type = DType::kI64,
                    .target = {kPairSize, max_length_},
                    .padding = padding_,
                    .segments = kPairSize};
    describe_tokens(*tokenizer_, shape);
    return shape;
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  std::vector<uint64_t> row_keys(const std::string& column) const override {
    return json_row_keys(path_, column, &kept_);
  }
  int64_t length(int64_t index) const override { return sequences_.length(index); }

 private:
  /// Empty for a tokenizer without a template: rows of texts need none.
  static std::string template_source(const PreferenceOptions& options) {
    const std::string &file = options.chat_template.text, &tokenizer = options.tokenizer.text;
    const bool has_none = file.empty() && !find_chat_template(tokenizer);
    return has_none ? std::string() : chat_template_source(file, tokenizer);
  }

  void read(const PreferenceOptions& options, const SharedBytes& file, const std::string& source) {
    std::optional<ChatTemplate> parsed;
    if (!source.empty()) {
      parsed = parse_chat_template(source, options.chat_template.text, options.tokenizer.text);
    }
    const PreferenceEncoder encoder(tokenizer_, std::move(parsed));
    TokenSequencesBuilder builder;
    std::map<std::string, int64_t> forms;
    int64_t number = -1;
    const std::string_view text = {reinterpret_cast<const char*>(file.view.data()),
                                   file.view.size()};
    each_json_row(text, [&](std::string_view row, int64_t line) {
      ++number;
      const std::string place = options.path.text + ":" + std::to_string(line) + ": ";
      try {
        const nlohmann::ordered_json given = read_chat_row(row);
        const nlohmann::ordered_json pair = preference_row(given, options);
        add(encoder.encode(pair), builder);
        kept_.push_back(number);
        ++forms[preference_form(given, pair, options)];
      } catch (const FormatError& error) {
        bad_.leave_out(DataError(place + error.what()));
      } catch (const DataError& error) {
        bad_.leave_out(DataError(place + error.what(), error.hint()));
      }
    });
    sequences_ = std::move(builder).finish();
    for (const auto& [form, count] : forms) {
      say(accel::text("{}: {} pairs of {}", options.path.text, count, form));
    }
  }

  void add(const PairTokens& pair, TokenSequencesBuilder& builder) const {
    CompletionTokens both = cut_completion(pair.prompt, pair.chosen, max_length_, kept_end_);
    const CompletionTokens second =
        cut_completion(pair.prompt, pair.rejected, max_length_, kept_end_);
    both.ids.insert(both.ids.end(), second.ids.begin(), second.ids.end());
    for (const int32_t learnt : second.completion) both.completion.push_back(kInSecond + learnt);
    builder.add(both.ids, both.completion);
  }

  std::string path_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t max_length_;
  KeptEnd kept_end_;
  BadSamples bad_;
  Padding padding_;
  std::vector<int64_t> kept_;  // rows of the file that are samples
  TokenSequences sequences_;   // the chosen sequence, then the rejected one
  std::string fingerprint_;
};

Schema<PreferenceOptions> Preference::schema() {
  using Options = PreferenceOptions;
  return with_bad_samples(
      with_message_keys(
          Schema<Options>()
              .field("path", &Options::path, "The file: an object a line, or an array of objects.")
              .required()
              .field("tokenizer", &Options::tokenizer,
                     "A tokenizer.json, or the folder that holds it.")
              .required()
              .field("chat_template", &Options::chat_template,
                     "File of a template for rows of messages; empty: the tokenizer's own.")
              .field("prompt", static_cast<std::string Options::*>(&Options::prompt_field),
                     "Field of the prompt, a text or a list of messages. Rows without it have the "
                     "prompt at the beginning of both answers.")
              .field("chosen", static_cast<std::string Options::*>(&Options::chosen),
                     "Field of the preferred answer, a text or a list of messages.")
              .field("rejected", static_cast<std::string Options::*>(&Options::rejected),
                     "Field of the other answer.")
              .field(
                  "texts_as_messages", static_cast<bool Options::*>(&Options::texts_as_messages),
                  "Whether a prompt that is a text becomes a user's message, and its answers the "
                  "assistant's, for the chat template. false: texts are tokenized as they are, "
                  "followed by the end token."))
          .field("max_length", &Options::max_length,
                 "Tokens beyond which a prompt with its answer is cut.", at_least<int64_t>(2))
          .hint_for({"max_seq_length", "max_seq_len", "sequence_len", "cutoff_len"})
          .field("truncation_mode", &Options::truncation_mode,
                 "Which end of a longer sequence remains: keep_end keeps the answer and cuts the "
                 "prompt.")
          .field(
              "pad_to_multiple_of", &Options::pad_to_multiple_of,
              "Micro-batches are filled to their longest pair, rounded up to a multiple of this.",
              at_least<int64_t>(1)));
}

const Register<Preference> preference;

}  // namespace
}  // namespace accel
