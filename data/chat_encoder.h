// Conversations as tokens, and which of them a model is to learn to say.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runner/tokenizers/chat_template.h"
#include "runner/tokenizers/tokenizer.h"

namespace accel {

enum class ChatAnswers { kAll, kLast };

struct ChatTokens {
  std::vector<int32_t> ids;      ///< those of the whole text, as transformers gives them
  std::vector<int32_t> answers;  ///< 1 for a token that the assistant says, else 0
};

/// The object that a line of JSON is. Throws FormatError for anything else.
nlohmann::ordered_json read_chat_row(std::string_view line);

/// Immutable; several threads may use one.
class ChatEncoder {
 public:
  ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_template,
              ChatAnswers answers);

  /// `row` is a section with `messages`, each with a role and a content, and, if it has them,
  /// `tools` and `chat_template_kwargs`, which the template is given too. What an assistant says is
  /// what its message adds to the text behind the template's generation prompt. Throws FormatError
  /// for messages that are none, that the template refuses, or whose text changes with what
  /// follows.
  ChatTokens encode(const nlohmann::ordered_json& row) const;

 private:
  std::string text_of(const nlohmann::ordered_json& variables, size_t messages, bool prompt) const;
  size_t tokens_in(const std::string& text, size_t bytes, const std::vector<int32_t>& ids) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplate template_;
  ChatAnswers answers_;
};

}  // namespace accel
