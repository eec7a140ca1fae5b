// Prompts in JSON Lines, for tasks that sample the completions, such as GRPO.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/api/prompt_rows.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/chat_file.h"
#include "data/datasets/text/chat_source.h"
#include "data/datasets/text/preference_rows.h"

namespace accel {
namespace {

struct PromptsOptions : PromptFields, ChatFileOptions {};

/// A prompt as text and as tokens.
struct EncodedPrompt {
  std::string text;
  std::vector<int32_t> ids;
};

/// As TRL's GRPOTrainer: texts have the tokenizer's special tokens, messages those of the template
/// with its generation prompt. A prompt has no end token.
class PromptEncoder {
 public:
  PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::optional<ChatTemplate> parsed)
      : tokenizer_(std::move(tokenizer)), template_(std::move(parsed)) {}

  EncodedPrompt encode(const nlohmann::ordered_json& row) const {
    const auto& prompt = row.at("prompt");
    if (prompt.is_string()) return encode_text(prompt.get<std::string>());
    if (!template_) {
      throw DataError("has messages, but the tokenizer has no chat template",
                      "set 'chat_template'");
    }
    nlohmann::ordered_json whole = row;
    whole["messages"] = prompt;
    nlohmann::ordered_json variables = chat_variables(whole, *tokenizer_);
    variables["add_generation_prompt"] = true;
    const std::string rendered = template_->render(variables);
    return {rendered, tokenizer_->encode(rendered, /*with_special=*/false)};
  }

 private:
  EncodedPrompt encode_text(const std::string& prompt) const {
    EncodedPrompt out{prompt, tokenizer_->encode(prompt)};
    const SpecialTokens& special = tokenizer_->special();
    while (out.ids.size() > 1 && (out.ids.back() == special.eos || out.ids.back() == special.sep)) {
      out.ids.pop_back();
    }
    return out;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
};

class Prompts final : public ChatFile, public PromptRows {
 public:
  static constexpr auto kName = "prompts";
  static constexpr const char* kHintFor[] = {"prompt_only", "prompt-only"};
  static constexpr auto kSummary =
      "JSON Lines of prompts, as texts or messages, with the columns that reward functions read.";

  static Schema<PromptsOptions> schema();

  explicit Prompts(const PromptsOptions& options) : ChatFile(options) {
    const OptionalTemplate chat_template =
        optional_chat_template(options.chat_template.text, options.tokenizer.text, options.date);
    const PromptEncoder encoder(tokenizer(), chat_template.parsed);
    read([&](const Row& row, TokenSequencesBuilder& builder) {
      EncodedPrompt prompt = encoder.encode(prompt_only_row(row, options));
      check_length(prompt.ids);
      builder.add(prompt.ids);
      rows_.push_back({std::move(prompt.text), row.dump()});
    });
    say(accel::text("{}: {} prompts", path(), rows_.size()));
    Fingerprint print = content_digest(chat_template.source);
    print.add(max_length()).add(options.identity());
    set_fingerprint(print);
  }

  Sample sample(int64_t index) const override {
    Sample sample = sequences().sample(index);
    sample.target = Array(DType::kI64, {sample.input.count()});
    for (int64_t& target : sample.target.mutable_as<int64_t>()) target = kIgnoredTarget;
    return sample;
  }

  DataShape shape() const override {
    DataShape shape = token_shape();
    shape.target = {0, max_length()};
    return shape;
  }

  PromptRow prompt_row(int64_t index) const override {
    const StoredRow& stored = rows_[static_cast<size_t>(index)];
    PromptRow out{.prompt = stored.prompt, .place = accel::text("sample {} of {}", index, path())};
    const auto row = nlohmann::json::parse(stored.json);
    for (const auto& [name, value] : row.items()) {
      if (value.is_null()) continue;
      out.columns[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    return out;
  }

 private:
  struct StoredRow {
    std::string prompt;
    std::string json;
  };

  void check_length(const std::vector<int32_t>& ids) const {
    if (ids.empty()) {
      throw DataError("has an empty prompt, and the tokenizer adds no start token",
                      "give the prompt at least one character");
    }
    if (static_cast<int64_t>(ids.size()) < max_length()) return;
    throw DataError(accel::text("has a prompt of {} tokens, which leaves none of the {} tokens of "
                                "'max_length' for a completion",
                                ids.size(), max_length()),
                    "raise 'max_length', or leave long prompts out with 'on_bad_sample'");
  }

  std::vector<StoredRow> rows_;
};

Schema<PromptsOptions> Prompts::schema() {
  using Options = PromptsOptions;
  return with_bad_samples(with_message_keys(
      with_chat_file(Schema<Options>())
          .field("prompt", static_cast<std::string Options::*>(&Options::prompt_field),
                 "Field of the prompt, a text or a list of messages. Reward functions read the "
                 "other fields.")
          .field("texts_as_messages", static_cast<bool Options::*>(&Options::texts_as_messages),
                 "Whether a prompt that is a text becomes a user's message for the chat template. "
                 "false: texts are tokenized as they are.")
          .field("max_length", static_cast<int64_t Options::*>(&Options::max_length),
                 "Tokens of the longest prompt with its completion, which sizes a model of `auto` "
                 "context. Prompts are not cut: one without room for a completion is a bad sample.",
                 at_least<int64_t>(2))
          .field("pad_to_multiple_of",
                 static_cast<int64_t Options::*>(&Options::pad_to_multiple_of),
                 "Micro-batches of prompts are filled to their longest, rounded up to a multiple "
                 "of this.",
                 at_least<int64_t>(1))));
}

const Register<Prompts> prompts;

}  // namespace
}  // namespace accel
