// Conversations as tokens, with a mask of the assistant's tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/datasets/text/chat_answers.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace accel {

struct ChatTokens {
  std::vector<int32_t> ids;      ///< of the whole text, as in transformers
  std::vector<int32_t> answers;  ///< 1 for tokens of the assistant, else 0
};

/// Parses a line of JSON. Throws FormatError unless it is an object.
nlohmann::ordered_json read_chat_row(std::string_view line);

/// Variables of a chat template for a row: its `messages`, `tools` and `chat_template_kwargs`, and
/// the special tokens.
nlohmann::ordered_json chat_variables(const nlohmann::ordered_json& row,
                                      const Tokenizer& tokenizer);

/// Immutable and thread-safe.
class ChatEncoder {
 public:
  ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, ChatTemplate chat_template,
              ChatAnswers answers);

  /// `row` has `messages`, each with a role and a content, and optionally `tools` and
  /// `chat_template_kwargs`, which the template also receives. An assistant's tokens are those with
  /// a byte of its generation blocks; without such blocks, of the text from the generation prompt
  /// to the end of its message. Throws FormatError for invalid messages, messages that the template
  /// rejects, and answers whose position in the text is ambiguous.
  ChatTokens encode(const nlohmann::ordered_json& row) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplate template_;
  ChatAnswers answers_;
};

}  // namespace accel
