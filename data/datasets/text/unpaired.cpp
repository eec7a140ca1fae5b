// Answers with a label of desirability in JSON Lines, for KTO.
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "core/api/sequence_pairs.h"
#include "core/api/targets.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/chat_file.h"
#include "data/datasets/text/chat_source.h"
#include "data/datasets/text/preference_encoder.h"
#include "data/datasets/text/preference_rows.h"

namespace accel {
namespace {

struct UnpairedOptions : UnpairedFields, ChatFileOptions {};

/// Segments of the stored tokens: twice the label, plus 1 in the completion.
constexpr int32_t kDesirable = 2, kInAnswer = 1;

class Unpaired final : public ChatFile {
 public:
  static constexpr auto kName = "unpaired";
  static constexpr const char* kHintFor[] = {"unpaired_preference", "kto"};
  static constexpr auto kSummary =
      "JSON Lines of prompts with an answer and whether it is desirable, as texts or messages.";

  static Schema<UnpairedOptions> schema();

  explicit Unpaired(const UnpairedOptions& options) : ChatFile(options) {
    const OptionalTemplate chat_template =
        optional_chat_template(options.chat_template.text, options.tokenizer.text, options.date);
    const PreferenceEncoder encoder(tokenizer(), chat_template.parsed);
    std::array<int64_t, 2> counts = {0, 0};
    read([&](const Row& row, TokenSequencesBuilder& builder) {
      const bool label = label_of(row, options);
      add(encoder.encode_answer(unpaired_row(row, options)), label, builder);
      ++counts.at(label ? 1 : 0);
    });
    say(accel::text("{}: {} desirable and {} undesirable answers", path(), counts[1], counts[0]));
    Fingerprint print = content_digest(chat_template.source);
    print.add(max_length()).add(options.identity());
    set_fingerprint(print);
  }

  Sample sample(int64_t index) const override {
    Sample sample = sequences().sample(index);
    sample.target = Array(DType::kI64, {sample.input.count()});
    const auto ids = sample.input.as<int64_t>();
    const auto marks = sample.segments.mutable_as<int64_t>();
    const auto targets = sample.target.mutable_as<int64_t>();
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool learnt = i + 1 < ids.size() && (marks[i + 1] & kInAnswer) != 0;
      targets[i] = learnt ? ids[i + 1] : kIgnoredTarget;
    }
    for (int64_t& mark : marks) mark = (mark & kDesirable) != 0 ? 1 : 0;
    return sample;
  }

  DataShape shape() const override {
    DataShape shape = token_shape();
    shape.target = {1, max_length()};
    shape.segments = 2;
    return shape;
  }

 private:
  void add(const AnswerTokens& tokens, bool label, TokenSequencesBuilder& builder) const {
    CompletionTokens whole =
        cut_completion(tokens.prompt, tokens.completion, max_length(), KeptEnd::kStart);
    for (int32_t& mark : whole.completion) mark += label ? kDesirable : 0;
    builder.add(whole.ids, whole.completion);
  }
};

Schema<UnpairedOptions> Unpaired::schema() {
  using Options = UnpairedOptions;
  return with_bad_samples(with_chat_lengths(with_message_keys(
      with_chat_file(Schema<Options>())
          .field("messages", static_cast<std::string Options::*>(&Options::messages),
                 "Field of a conversation whose last message is the answer, for rows without a "
                 "prompt and a completion.")
          .hint_for({"conversations", "field_messages"})
          .field("prompt", static_cast<std::string Options::*>(&Options::prompt_field),
                 "Field of the prompt, a text or a list of messages.")
          .field("completion", static_cast<std::string Options::*>(&Options::answer),
                 "Field of the answer, a text or a list of messages.")
          .field("label", static_cast<std::string Options::*>(&Options::label),
                 "Field of the label: true or 1 for a desirable answer, false or 0 for another.")
          .hint_for({"kto_tag"})
          .field("texts_as_messages", static_cast<bool Options::*>(&Options::texts_as_messages),
                 kTextsAsMessagesHelp))));
}

const Register<Unpaired> unpaired;

}  // namespace
}  // namespace accel
