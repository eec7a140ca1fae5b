// Conversations, or prompts and what is to follow them, as lines of JSON: the loss is on the
// answers.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/dataset.h"
#include "core/error.h"
#include "core/input_path.h"
#include "core/packed_texts.h"
#include "core/registry.h"
#include "core/targets.h"
#include "data/bad_samples.h"
#include "data/chat_encoder.h"
#include "data/fingerprint.h"
#include "data/json_lines.h"
#include "data/length_groups.h"
#include "data/packing.h"
#include "data/text_columns.h"
#include "data/token_sequences.h"
#include "runner/formats/format_error.h"
#include "runner/formats/mapped_file.h"

namespace accel {

template <>
struct EnumNames<ChatAnswers> {
  static constexpr std::pair<ChatAnswers, const char*> kValues[] = {{ChatAnswers::kAll, "all"},
                                                                    {ChatAnswers::kLast, "last"}};
};

namespace {

using Json = nlohmann::ordered_json;

struct ChatOptions {
  InputFile path;
  InputPath tokenizer;
  InputFile chat_template;
  std::string messages = "messages";
  std::string prompt;
  std::string completion;
  ChatAnswers answers = ChatAnswers::kAll;
  bool answers_only = true;
  bool pack = false;
  int64_t max_length = 1024;
  int64_t pad_multiple = 1;
  OnBadSample on_bad_sample;
};

Json turn(const char* role, const Json& row, const std::string& field) {
  const auto found = row.find(field);
  if (found == row.end() || !found->is_string()) {
    throw FormatError("has no text in the field '" + field + "'");
  }
  return {{"role", role}, {"content", *found}};
}

/// The row under the names that an encoder wants.
Json with_messages(Json row, const ChatOptions& options) {
  if (!options.prompt.empty()) {
    row["messages"] = Json::array(
        {turn("user", row, options.prompt), turn("assistant", row, options.completion)});
  } else if (options.messages != "messages") {
    row["messages"] = row.contains(options.messages) ? row[options.messages] : Json();
  }
  return row;
}

std::string template_of(const ChatOptions& options) {
  if (!options.chat_template.text.empty()) {
    const SharedBytes file = map_file(options.chat_template.text);
    return {reinterpret_cast<const char*>(file.view.data()), file.view.size()};
  }
  if (auto found = find_chat_template(options.tokenizer.text)) return *std::move(found);
  throw DataError(
      "the tokenizer '" + options.tokenizer.text + "' has no chat template",
      "give one with 'chat_template': a file in the part of Jinja that docs/chat.md tells");
}

ChatEncoder encoder_of(const ChatOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                       const std::string& source) try {
  return {std::move(tokenizer), source, options.answers};
} catch (const FormatError& error) {
  const bool own = options.chat_template.text.empty();
  throw DataError("the chat template of '" +
                      (own ? options.tokenizer.text : options.chat_template.text) +
                      "': " + error.what(),
                  "docs/chat.md tells what of Jinja there is");
}

class Chat final : public Dataset, public LeavesOut, public KnowsLengths {
 public:
  static constexpr auto kName = "chat";
  static constexpr auto kSummary =
      "JSON Lines of conversations, by a chat template: to learn what the assistant says.";

  static Schema<ChatOptions> schema();

  explicit Chat(const ChatOptions& options)
      : tokenizer_(load_tokenizer(options.tokenizer.text)),
        answers_only_(options.answers_only),
        max_length_(options.max_length),
        bad_(options.on_bad_sample, options.path.text),
        padding_{.input = tokenizer_->special().pad.value_or(0), .multiple = options.pad_multiple} {
    const SharedBytes file = map_file(options.path.text);
    const std::string source = template_of(options);
    read(options, as_text(file), encoder_of(options, tokenizer_, source));
    if (options.pack) {
      packing_.emplace(sequences_.size(), max_length_,
                       [this](int64_t i) { return sequences_.length(i); });
    }
    bad_.tell(sequences_.size());
    if (size() == 0) throw DataError("'" + options.path.text + "' has no lines");
    fingerprint_ = Fingerprint()
                       .add_content(file.view)
                       .add(tokenizer_->digest())
                       .add(source)
                       .add(static_cast<int64_t>(options.answers))
                       .add(options.answers_only)
                       .add(max_length_)
                       .add(options.pack)
                       .text();
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
      std::copy(tokens.begin(), tokens.end(), packed.input.mutable_as<int64_t>().begin() + at);
      std::copy(targets.begin(), targets.end(), packed.target.mutable_as<int64_t>().begin() + at);
      const auto segments = packed.segments.mutable_as<int64_t>().subspan(at, tokens.size());
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
    // From 1 on, and never so few that they could be those of a pair.
    if (packing_) shape.segments = std::max(max_length_, kMostSegmentsOfOneText) + 1;
    describe_tokens(*tokenizer_, shape);
    return shape;
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }
  int64_t length(int64_t index) const override {
    if (!packing_) return sequences_.length(index);
    int64_t sum = 0;
    for (const int64_t member : packing_->members(index)) sum += sequences_.length(member);
    return sum;
  }

 private:
  /// Its last token is followed by nothing, whatever it is packed with.
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
    each_line(text, [&](std::string_view line, int64_t number) {
      const std::string place = options.path.text + ":" + std::to_string(number);
      try {
        add(encoder.encode(with_messages(read_chat_row(line), options)), builder);
      } catch (const FormatError& error) {
        bad_.leave_out(DataError(place + ": " + error.what()));
      }
    });
    sequences_ = std::move(builder).finish();
  }

  void add(ChatTokens tokens, TokenSequencesBuilder& builder) const {
    const size_t size = std::min(tokens.ids.size(), static_cast<size_t>(max_length_));
    tokens.ids.resize(size);
    tokens.answers.resize(size);
    // The first token follows nothing, so that nobody asks for it.
    const bool any = size > 1 && std::find(tokens.answers.begin() + 1, tokens.answers.end(), 1) !=
                                     tokens.answers.end();
    if (!any) {
      throw FormatError("no answer begins within " + std::to_string(max_length_) +
                        " tokens, which is 'max_length'");
    }
    builder.add(tokens.ids, tokens.answers);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool answers_only_;
  int64_t max_length_;
  BadSamples bad_;
  Padding padding_;
  std::optional<Packing> packing_;  // none: each conversation is a sample
  TokenSequences sequences_;        // whose segments are 1 for tokens of answers
  std::string fingerprint_;
};

Schema<ChatOptions> Chat::schema() {
  return with_bad_samples(
             Schema<ChatOptions>()
                 .field("path", &ChatOptions::path, "The file, an object a line.")
                 .required()
                 .field("tokenizer", &ChatOptions::tokenizer,
                        "A tokenizer.json, or the folder that holds it.")
                 .required()
                 .field("chat_template", &ChatOptions::chat_template,
                        "File of a template; empty: the tokenizer's own, of its "
                        "chat_template.jinja or "
                        "tokenizer_config.json.")
                 .field("messages", &ChatOptions::messages,
                        "Field of the messages, a list of {role, content}.")
                 .field("prompt", &ChatOptions::prompt,
                        "Given, with 'completion': fields of two texts, which count as a user's "
                        "message and the "
                        "assistant's, in place of 'messages'.")
                 .field("completion", &ChatOptions::completion,
                        "The text that is to follow the prompt.")
                 .field("answers", &ChatOptions::answers,
                        "Which messages of the assistant to learn; the last alone where the "
                        "template changes "
                        "earlier ones.")
                 .field("answers_only", &ChatOptions::answers_only,
                        "Whether the loss leaves out all but the answers. The tokens are the same.")
                 .field("pack", &ChatOptions::pack,
                        "Puts several conversations into a sample of up to max_length tokens. A "
                        "model such as gpt or llama keeps them apart.")
                 .field("max_length", &ChatOptions::max_length,
                        "Tokens beyond which a conversation is cut.", at_least<int64_t>(2))
                 .field("pad_multiple", &ChatOptions::pad_multiple,
                        "Micro-batches are filled to their longest text, rounded up to a multiple "
                        "of this.",
                        at_least<int64_t>(1)))
      .check([](const ChatOptions& options, const Node& node, Reading& reading) {
        if (options.prompt.empty() == options.completion.empty()) return;
        reading.problems.error(node.where, "'prompt' and 'completion' go together",
                               "name both fields, or neither for 'messages'");
      });
}

const Register<Chat> chat;

}  // namespace
}  // namespace accel
