// Chat session: the messages of a conversation and the tokens that a model continues.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace accel {

class ChatSession {
 public:
  ChatSession(std::shared_ptr<const Tokenizer> tokenizer, ChatTemplate chat_template);

  /// Replaces the system message of this conversation and the next ones; empty: none.
  void set_system(const std::string& text);
  /// Begins a new conversation.
  void reset() { messages_.clear(); }

  /// Returns the tokens of the conversation with this message and the template's generation prompt,
  /// encoded without special tokens, which the template writes. Throws Error (kRecipe) for
  /// messages that the template rejects; the conversation is unchanged then.
  std::vector<int64_t> add_user_message(const std::string& text);
  void add_assistant_message(const std::string& text);

  /// The special token that the template writes after an assistant's message; none: another text.
  std::optional<int64_t> end_of_turn() const;

 private:
  using Messages = nlohmann::ordered_json;

  std::string render(const Messages& messages, bool generation_prompt) const;
  /// The system message and those of the conversation.
  Messages messages() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplate template_;
  std::string system_;
  std::vector<nlohmann::ordered_json>
      messages_;  ///< of the conversation, without the system message
};

}  // namespace accel
