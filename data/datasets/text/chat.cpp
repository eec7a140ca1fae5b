// Conversations, or prompts with completions, in JSON Lines; the loss covers the answers only.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/chat_file.h"
#include "data/datasets/text/chat_rows.h"
#include "data/datasets/text/chat_source.h"
#include "data/datasets/text/preference_encoder.h"
#include "data/datasets/text/preference_rows.h"
#include "data/datasets/text/text_columns.h"

namespace accel {

template <>
struct EnumNames<ChatAnswers> {
  static constexpr std::pair<ChatAnswers, const char*> kValues[] = {
      {ChatAnswers::kAll, "all"},
      {ChatAnswers::kLast, "last"},
      {ChatAnswers::kCompletion, "completion"}};
};

namespace {

struct ChatOptions : ChatFields, ChatFileOptions {
  ChatAnswers answers = ChatAnswers::kAll;
  bool answers_only = true;
  bool pack = false;
};

ChatEncoder encoder_of(const ChatOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                       const std::string& source) {
  return {
      std::move(tokenizer),
      parse_chat_template(source, options.chat_template.text, options.tokenizer.text, options.date),
      options.answers};
}

class Chat final : public ChatFile {
 public:
  static constexpr auto kName = "chat";
  static constexpr auto kSummary =
      "JSON Lines of conversations, with a chat template: trains on the assistant's messages.";

  static Schema<ChatOptions> schema();

  explicit Chat(const ChatOptions& options)
      : ChatFile(options), answers_only_(options.answers_only) {
    const std::string source = options.answers == ChatAnswers::kCompletion
                                   ? read_completions(options)
                                   : read_conversations(options);
    if (options.pack) {
      packing_.emplace(sequences().size(), max_length(),
                       [this](int64_t i) { return sequences().length(i); });
      packing_->say_summary(path(), max_length());
    }
    Fingerprint print = content_digest(source);
    print.add(static_cast<int64_t>(options.answers))
        .add(options.answers_only)
        .add(max_length())
        .add(options.pack);
    if (const std::string fields = options.identity(); !fields.empty()) print.add(fields);
    set_fingerprint(print);
  }

  int64_t size() const override { return packing_ ? packing_->size() : ChatFile::size(); }

  Sample sample(int64_t index) const override {
    if (!packing_) return conversation(index);
    return joined_texts(packing_->members(index),
                        [this](int64_t member) { return conversation(member); });
  }

  DataShape shape() const override {
    DataShape shape = token_shape();
    if (packing_) shape.segments = packed_segments(max_length());
    return shape;
  }

  std::vector<uint64_t> row_keys(const std::string& column) const override {
    if (packing_) refuse_packed_groups(column, "conversations");
    return ChatFile::row_keys(column);
  }
  int64_t length(int64_t index) const override {
    if (!packing_) return ChatFile::length(index);
    int64_t sum = 0;
    for (const int64_t member : packing_->members(index)) sum += ChatFile::length(member);
    return sum;
  }

 private:
  /// The rows as conversations. Returns the chat template's source.
  std::string read_conversations(const ChatOptions& options) {
    std::string source = chat_template_source(options.chat_template.text, options.tokenizer.text);
    const ChatEncoder encoder = encoder_of(options, tokenizer(), source);
    std::map<std::string, int64_t> forms;
    read([&](const Row& row, TokenSequencesBuilder& builder) {
      add(encoder.encode(with_messages(row, options)), builder);
      if (options.format == ChatFormat::kAuto) ++forms[recognized_form(row, options).name];
    });
    say_forms(path(), forms);
    return source;
  }

  /// The rows as prompts with completions. Returns the chat template's source; "" without one.
  std::string read_completions(const ChatOptions& options) {
    const OptionalTemplate chat_template =
        optional_chat_template(options.chat_template.text, options.tokenizer.text, options.date);
    const PreferenceEncoder encoder(tokenizer(), chat_template.parsed);
    UnpairedFields fields{options};
    fields.messages.clear();
    fields.prompt_field = options.prompt.front();
    fields.answer = options.completion;
    read([&](const Row& row, TokenSequencesBuilder& builder) {
      const AnswerTokens tokens = encoder.encode_answer(unpaired_row(row, fields));
      const CompletionTokens whole =
          cut_completion(tokens.prompt, tokens.completion, max_length(), KeptEnd::kStart);
      builder.add(whole.ids, whole.completion);
    });
    return chat_template.source;
  }

  /// The last token has no target, because the next text of a packed row does not follow it.
  Sample conversation(int64_t index) const {
    Sample sample = sequences().sample(index);
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

  void add(ChatTokens tokens, TokenSequencesBuilder& builder) const {
    const size_t size = std::min(tokens.ids.size(), static_cast<size_t>(max_length()));
    tokens.ids.resize(size);
    tokens.answers.resize(size);
    // The first token is never a target.
    const bool any =
        size > 1 && (!answers_only_ || std::find(tokens.answers.begin() + 1, tokens.answers.end(),
                                                 1) != tokens.answers.end());
    if (!any) {
      throw FormatError(
          accel::text("no answer begins within {} tokens, which is 'max_length'", max_length()));
    }
    builder.add(tokens.ids, tokens.answers);
  }

  bool answers_only_;
  std::optional<Packing> packing_;  // none: one conversation per sample. Segments of the stored
                                    // tokens are 1 in answers
};

Schema<ChatOptions> Chat::schema() {
  return with_bad_samples(
             with_chat_lengths(
                 with_chat_fields(with_chat_file(Schema<ChatOptions>()))
                     .field(
                         "answers", &ChatOptions::answers,
                         "Which messages of the assistant to learn; the last alone where the "
                         "template "
                         "changes earlier ones. completion: all tokens of 'completion', as TRL's "
                         "SFTTrainer; texts are then tokenized as they are, without a template, "
                         "and "
                         "end with the end token.")
                     .field("answers_only", &ChatOptions::answers_only,
                            "Whether the loss leaves out all but the answers. The tokens are the "
                            "same.")
                     .field("pack", &ChatOptions::pack,
                            "Packs several conversations into a sample of up to max_length tokens. "
                            "Models "
                            "such as gpt and llama separate them in attention.")
                     .hint_for({"packing", "sample_packing"}))
                 .renamed_from("pad_multiple"))
      .check([](const ChatOptions& options, const Node& node, Reading& reading) {
        if (options.answers != ChatAnswers::kCompletion || options.prompt.size() == 1) return;
        reading.problems.error(node.find("answers")->where,
                               "'answers: completion' needs one field in 'prompt' and one in "
                               "'completion'",
                               "name them, such as 'prompt: prompt' and 'completion: completion'");
      });
}

const Register<Chat> chat;

}  // namespace
}  // namespace accel
