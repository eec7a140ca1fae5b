// Preference pairs in JSON Lines: a prompt with a chosen and a rejected answer.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/api/pair_margins.h"
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

template <>
struct EnumNames<KeptEnd> {
  static constexpr std::pair<KeptEnd, const char*> kValues[] = {{KeptEnd::kStart, "keep_start"},
                                                                {KeptEnd::kEnd, "keep_end"}};
};

namespace {

struct PreferenceOptions : PreferenceFields, ChatFileOptions {
  KeptEnd truncation_mode = KeptEnd::kStart;
};

/// Segments of the stored tokens: twice the number of the sequence, plus 1 in its completion.
constexpr int32_t kInSecond = 2, kInCompletion = 1;

/// The field of TRL's RewardTrainer.
constexpr auto kMargin = "margin";

class Preference final : public ChatFile, public PairMargins {
 public:
  static constexpr auto kName = "preference";
  static constexpr const char* kHintFor[] = {"preferences", "paired", "preference_pairs",
                                             "chosen_rejected"};
  static constexpr auto kSummary =
      "JSON Lines of prompts with a chosen and a rejected answer, as texts or messages.";

  static Schema<PreferenceOptions> schema();

  explicit Preference(const PreferenceOptions& options)
      : ChatFile(options), kept_end_(options.truncation_mode) {
    const OptionalTemplate chat_template =
        optional_chat_template(options.chat_template.text, options.tokenizer.text, options.date);
    const PreferenceEncoder encoder(tokenizer(), chat_template.parsed);
    std::map<std::string, int64_t> forms;
    read([&](const Row& row, TokenSequencesBuilder& builder) {
      const Row pair = preference_row(row, options);
      add(encoder.encode(pair), builder);
      add_margin(row);
      ++forms[preference_form(row, pair, options)];
    });
    for (const auto& [form, count] : forms) {
      say(accel::text("{}: {} pairs of {}", path(), count, form));
    }
    Fingerprint print = content_digest(chat_template.source);
    print.add(max_length()).add(static_cast<int64_t>(kept_end_)).add(options.identity());
    set_fingerprint(print);
  }

  Sample sample(int64_t index) const override {
    Sample sample = sequences().sample(index);
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

  std::optional<double> pair_margin(int64_t index) const override {
    return margins_[static_cast<size_t>(index)];
  }

  DataShape shape() const override {
    DataShape shape = token_shape();
    shape.target = {kPairSize, max_length()};
    shape.segments = kPairSize;
    return shape;
  }

 private:
  void add(const PairTokens& pair, TokenSequencesBuilder& builder) const {
    CompletionTokens both = cut_completion(pair.prompt, pair.chosen, max_length(), kept_end_);
    const CompletionTokens second =
        cut_completion(pair.prompt, pair.rejected, max_length(), kept_end_);
    both.ids.insert(both.ids.end(), second.ids.begin(), second.ids.end());
    for (const int32_t learnt : second.completion) both.completion.push_back(kInSecond + learnt);
    builder.add(both.ids, both.completion);
  }

  void add_margin(const Row& row) {
    const auto margin = row.find(kMargin);
    std::optional<double>& added = margins_.emplace_back();
    if (margin == row.end() || margin->is_null()) return;
    added = margin->is_number() ? margin->get<double>() : std::nan("");
  }

  KeptEnd kept_end_;
  std::vector<std::optional<double>> margins_;  ///< by sample
};

Schema<PreferenceOptions> Preference::schema() {
  using Options = PreferenceOptions;
  return with_bad_samples(with_chat_lengths(
      with_message_keys(
          with_chat_file(Schema<Options>())
              .field("prompt", static_cast<std::string Options::*>(&Options::prompt_field),
                     "Field of the prompt, a text or a list of messages. Rows without it have the "
                     "prompt at the beginning of both answers.")
              .field("chosen", static_cast<std::string Options::*>(&Options::chosen),
                     "Field of the preferred answer, a text or a list of messages.")
              .field("rejected", static_cast<std::string Options::*>(&Options::rejected),
                     "Field of the other answer.")
              .field("texts_as_messages", static_cast<bool Options::*>(&Options::texts_as_messages),
                     kTextsAsMessagesHelp))
          .field("truncation_mode", &Options::truncation_mode,
                 "Which end of a longer sequence remains: keep_end keeps the answer and cuts the "
                 "prompt.")));
}

const Register<Preference> preference;

}  // namespace
}  // namespace accel
