// Conversations as tokens, with a mask of the assistant's tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace accel {

enum class ChatAnswers { kAll, kLast };

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
  ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_template,
              ChatAnswers answers);

  /// `row` has `messages`, each with a role and a content, and optionally `tools` and
  /// `chat_template_kwargs`, which the template also receives. An assistant's tokens are those that
  /// its message adds after the template's generation prompt. Throws FormatError for invalid
  /// messages, messages that the template rejects, and text that depends on later messages.
  ChatTokens encode(const nlohmann::ordered_json& row) const;

 private:
  std::string text_of(const nlohmann::ordered_json& variables, size_t messages, bool prompt) const;
  size_t tokens_in(const std::string& text, size_t bytes, const std::vector<int32_t>& ids) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplate template_;
  ChatAnswers answers_;
};

}  // namespace accel
