// Positions of the assistant's answers in the text of a conversation.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/chat/chat_template.h"

namespace accel {

/// Which answers are learnt; kCompletion: all that follows the tokens of a prompt.
enum class ChatAnswers { kAll, kLast, kCompletion };

/// Holds references: the arguments must outlive it.
class ChatAnswerFinder {
 public:
  /// `text` is what the template writes with `variables`, whose `messages` have roles.
  ChatAnswerFinder(const ChatTemplate& chat_template, const nlohmann::ordered_json& variables,
                   const std::string& text)
      : template_(chat_template), variables_(variables), text_(text) {}

  /// By rendering: an answer begins where the text departs from the messages before it with the
  /// generation prompt, and ends where the conversation up to it ends. Where a template writes an
  /// answer another way when it is the last one, the answer ends with the closing text that both
  /// have in common after its content, whose position is found by writing a longer content.
  /// Throws FormatError for an answer without a position.
  std::vector<ChatSpan> answers(ChatAnswers which) const;

  /// By the generation blocks of `whole`. Throws FormatError for blocks without a position and for
  /// a text without blocks.
  std::vector<ChatSpan> generated(const RenderedChat& whole, ChatAnswers which) const;

 private:
  ChatSpan answer(size_t message) const;
  std::string text_of(size_t messages, bool prompt) const;
  size_t content_end(const std::string& text, size_t messages, size_t message) const;

  const ChatTemplate& template_;
  const nlohmann::ordered_json& variables_;
  const std::string& text_;
};

}  // namespace accel
