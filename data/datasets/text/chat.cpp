// Conversations, or prompts with completions, in JSON Lines; the loss covers the answers only.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/packed_sequences.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/chat_rows.h"
#include "data/datasets/text/chat_source.h"
#include "data/datasets/text/json_row_keys.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/token_sequences.h"
#include "data/loader/epoch_order.h"
#include "formats/records/jsonl.h"

namespace accel {

template <>
struct EnumNames<ChatAnswers> {
  static constexpr std::pair<ChatAnswers, const char*> kValues[] = {{ChatAnswers::kAll, "all"},
                                                                    {ChatAnswers::kLast, "last"}};
};

namespace {

struct ChatOptions : ChatFields {
  InputFile path;
  InputPath tokenizer;
  InputFile chat_template;
  ChatAnswers answers = ChatAnswers::kAll;
  bool answers_only = true;
  bool pack = false;
  int64_t max_length = 1024;
  int64_t pad_to_multiple_of = 1;
  OnBadSample on_bad_sample;
};

ChatEncoder encoder_of(const ChatOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                       const std::string& source) try {
  return {std::move(tokenizer), source, options.answers};
} catch (const FormatError& error) {
  const bool own = options.chat_template.text.empty();
  throw DataError(
      accel::text("the chat template of '{}': {}",
                  (own ? options.tokenizer.text : options.chat_template.text), error.what()),
      "docs/chat.md describes the supported subset of Jinja");
}

class Chat final : public Dataset, public SkipsSamples, public KnowsLengths, public RowKeys {
 public:
  static constexpr auto kName = "chat";
  static constexpr auto kSummary =
      "JSON Lines of conversations, with a chat template: trains on the assistant's messages.";

  static Schema<ChatOptions> schema();

  explicit Chat(const ChatOptions& options)
      : path_(options.path.text),
        tokenizer_(load_tokenizer(options.tokenizer.text)),
        answers_only_(options.answers_only),
        max_length_(options.max_length),
        bad_(options.on_bad_sample, options.path.text),
        padding_{.input = tokenizer_->special().pad.value_or(0),
                 .multiple = options.pad_to_multiple_of} {
    const SharedBytes file = map_file(options.path.text);
    const std::string source =
        chat_template_source(options.chat_template.text, options.tokenizer.text);
    read(options, as_text(file), encoder_of(options, tokenizer_, source));
    if (options.pack) {
      packing_.emplace(sequences_.size(), max_length_,
                       [this](int64_t i) { return sequences_.length(i); });
    }
    bad_.tell(sequences_.size());
    if (size() == 0) throw DataError(accel::text("'{}' has no lines", options.path.text));
    Fingerprint print;
    print.add_content(file.view)
        .add(tokenizer_->digest())
        .add(source)
        .add(static_cast<int64_t>(options.answers))
        .add(options.answers_only)
        .add(max_length_)
        .add(options.pack);
    if (const std::string fields = options.identity(); !fields.empty()) print.add(fields);
    fingerprint_ = print.text();
  }

  int64_t size() const override { return packing_ ? packing_->size() : sequences_.size(); }

  Sample sample(int64_t index) const override {
    if (!packing_) return conversation(index);
    Sample packed = {Array(DType::kI64, {length(index)}), Array(DType::kI64, {length(index)}),
                     Array(DType::kI64, {length(index)})};
    size_t at = 0;
    int64_t number = 0;
    for (const int64_t member : packing_->members(index)) {
      const Sample sample = conversation(member);
      const auto tokens = sample.input.as<int64_t>(), targets = sample.target.as<int64_t>();
      const auto place = [&](Array& whole) {
        return whole.mutable_as<int64_t>().subspan(at, tokens.size());
      };
      std::copy(tokens.begin(), tokens.end(), place(packed.input).begin());
      std::copy(targets.begin(), targets.end(), place(packed.target).begin());
      const auto segments = place(packed.segments);
      std::fill(segments.begin(), segments.end(), ++number);
      at += tokens.size();
    }
    return packed;
  }

  DataShape shape() const override {
    DataShape shape{.input = {max_length_},
                    .input_type = DType::kI64,
                    .target = {max_length_},
                    .padding = padding_};
    // More than kMostSegmentsOfOneText, so that the samples are not read as text pairs.
    if (packing_) shape.segments = std::max(max_length_, kMostSegmentsOfOneText) + 1;
    describe_tokens(*tokenizer_, shape);
    return shape;
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  std::vector<uint64_t> row_keys(const std::string& column) const override {
    if (!packing_) return json_row_keys(path_, column, &kept_);
    throw Error(ExitCode::kRecipe,
                accel::text("'group' keeps rows with one '{}' together, but 'pack' puts several "
                            "conversations into a sample",
                            column),
                "leave out 'pack' or 'group', or name a file of eval data");
  }
  int64_t length(int64_t index) const override {
    if (!packing_) return sequences_.length(index);
    int64_t sum = 0;
    for (const int64_t member : packing_->members(index)) sum += sequences_.length(member);
    return sum;
  }

 private:
  /// The last token has no target, because the next text of a packed row does not follow it.
  Sample conversation(int64_t index) const {
    Sample sample = sequences_.sample(index);
    const Array answers = std::exchange(sample.segments, {});
    sample.target = following(sample.input);
    if (!answers_only_) return sample;
    const auto told = answers.as<int64_t>();
    const auto target = sample.target.mutable_as<int64_t>();
    for (size_t i = 0; i + 1 < told.size(); ++i) {
      if (told[i + 1] == 0) target[i] = kIgnoredTarget;
    }
    return sample;
  }

  static std::string_view as_text(const SharedBytes& file) {
    return {reinterpret_cast<const char*>(file.view.data()), file.view.size()};
  }

  void read(const ChatOptions& options, std::string_view text, const ChatEncoder& encoder) {
    TokenSequencesBuilder builder;
    int64_t number = -1;
    each_json_row(text, [&](std::string_view row, int64_t line) {
      ++number;
      const std::string place = options.path.text + ":" + std::to_string(line) + ": ";
      try {
        add(encoder.encode(with_messages(read_chat_row(row), options)), builder);
        kept_.push_back(number);
      } catch (const FormatError& error) {
        bad_.leave_out(DataError(place + error.what()));
      } catch (const DataError& error) {
        bad_.leave_out(DataError(place + error.what(), error.hint()));
      }
    });
    sequences_ = std::move(builder).finish();
  }

  void add(ChatTokens tokens, TokenSequencesBuilder& builder) const {
    const size_t size = std::min(tokens.ids.size(), static_cast<size_t>(max_length_));
    tokens.ids.resize(size);
    tokens.answers.resize(size);
    // The first token is never a target.
    const bool any = size > 1 && std::find(tokens.answers.begin() + 1, tokens.answers.end(), 1) !=
                                     tokens.answers.end();
    if (!any) {
      throw FormatError(
          accel::text("no answer begins within {} tokens, which is 'max_length'", max_length_));
    }
    builder.add(tokens.ids, tokens.answers);
  }

  std::string path_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool answers_only_;
  int64_t max_length_;
  BadSamples bad_;
  Padding padding_;
  std::optional<Packing> packing_;  // none: one conversation per sample
  std::vector<int64_t> kept_;       // rows of the file that are samples
  TokenSequences sequences_;        // its segments mark the tokens of answers with 1
  std::string fingerprint_;
};

Schema<ChatOptions> Chat::schema() {
  return with_bad_samples(
      with_chat_fields(
          Schema<ChatOptions>()
              .field("path", &ChatOptions::path,
                     "The file: an object a line, or an array of objects.")
              .required()
              .field("tokenizer", &ChatOptions::tokenizer,
                     "A tokenizer.json, or the folder that holds it.")
              .required()
              .field("chat_template", &ChatOptions::chat_template,
                     "File of a template; empty: the tokenizer's own, of its chat_template.jinja "
                     "or tokenizer_config.json."))
          .field("answers", &ChatOptions::answers,
                 "Which messages of the assistant to learn; the last alone where the template "
                 "changes earlier ones.")
          .field("answers_only", &ChatOptions::answers_only,
                 "Whether the loss leaves out all but the answers. The tokens are the same.")
          .field("pack", &ChatOptions::pack,
                 "Packs several conversations into a sample of up to max_length tokens. Models "
                 "such as gpt and llama separate them in attention.")
          .hint_for({"packing", "sample_packing"})
          .field("max_length", &ChatOptions::max_length,
                 "Tokens beyond which a conversation is cut.", at_least<int64_t>(2))
          .hint_for({"max_seq_length", "max_seq_len", "sequence_len", "cutoff_len"})
          .field("pad_to_multiple_of", &ChatOptions::pad_to_multiple_of,
                 "Micro-batches are filled to their longest text, rounded up to a multiple of "
                 "this.",
                 at_least<int64_t>(1))
          .renamed_from("pad_multiple"));
}

const Register<Chat> chat;

}  // namespace
}  // namespace accel
