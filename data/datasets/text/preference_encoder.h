// Preference pairs as tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace accel {

/// Which end of a sequence above the maximum length remains.
enum class KeptEnd { kStart, kEnd };

struct PairTokens {
  std::vector<int32_t> prompt;
  std::vector<int32_t> chosen, rejected;  ///< completions
};

struct AnswerTokens {
  std::vector<int32_t> prompt, completion;
};

/// The tokens of one sequence, and 1 for each token of the completion.
struct CompletionTokens {
  std::vector<int32_t> ids, completion;
};

/// Immutable and thread-safe.
class PreferenceEncoder {
 public:
  /// Without `chat_template`, messages are refused.
  PreferenceEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                    std::optional<ChatTemplate> chat_template)
      : tokenizer_(std::move(tokenizer)), template_(std::move(chat_template)) {}

  /// `row` is as of preference_row(). The tokens are those of TRL's DPOTrainer: texts have the
  /// tokenizer's special tokens and end with its end token, messages those of the template; the
  /// completions begin where the tokens of the prompt and of the whole first differ. Throws
  /// FormatError and DataError, without the place.
  PairTokens encode(const nlohmann::ordered_json& row) const;
  /// The same for a row of unpaired_row(), as TRL's KTOTrainer.
  AnswerTokens encode_answer(const nlohmann::ordered_json& row) const;

 private:
  /// Of the prompt, with the answer unless it is null.
  std::vector<int32_t> tokens_of(const nlohmann::ordered_json& row, const char* answer) const;
  std::vector<int32_t> tokens_of_messages(const nlohmann::ordered_json& row,
                                          const char* answer) const;
  std::vector<int32_t> tokens_of_texts(const nlohmann::ordered_json& row, const char* answer) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
};

/// The prompt and a completion in at most `max_length` tokens. Throws FormatError if no token of
/// the completion has a token before it.
CompletionTokens cut_completion(const std::vector<int32_t>& prompt,
                                const std::vector<int32_t>& completion, int64_t max_length,
                                KeptEnd kept);

}  // namespace accel
