#include "infer/chat_session.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "data/datasets/text/chat_encoder.h"

namespace accel {
namespace {

nlohmann::ordered_json message_of(const char* role, const std::string& text) {
  return {{"role", role}, {"content", text}};
}

}  // namespace

ChatSession::ChatSession(std::shared_ptr<const Tokenizer> tokenizer, ChatTemplate chat_template)
    : tokenizer_(std::move(tokenizer)), template_(std::move(chat_template)) {}

void ChatSession::set_system(const std::string& text) {
  system_ = text;
}

ChatSession::Messages ChatSession::messages() const {
  Messages out = Messages::array();
  if (!system_.empty()) out.push_back(message_of("system", system_));
  for (const auto& message : messages_) out.push_back(message);
  return out;
}

std::string ChatSession::render(const Messages& messages, bool generation_prompt) const {
  Messages variables = chat_variables({{"messages", messages}}, *tokenizer_);
  variables["add_generation_prompt"] = generation_prompt;
  return template_.render(variables);
}

std::vector<int64_t> ChatSession::add_user_message(const std::string& text) {
  messages_.push_back(message_of("user", text));
  try {
    const std::vector<int32_t> ids = tokenizer_->encode(render(messages(), true), false);
    return {ids.begin(), ids.end()};
  } catch (const FormatError& error) {
    messages_.pop_back();
    throw Error(ExitCode::kRecipe,
                accel::text("the chat template rejects the conversation: {}", error.what()),
                "see /system and /reset");
  }
}

void ChatSession::add_assistant_message(const std::string& text) {
  messages_.push_back(message_of("assistant", text));
}

std::optional<int64_t> ChatSession::end_of_turn() const {
  static constexpr const char* kAnswer = "probe";
  std::string whole;
  try {
    whole = render({message_of("user", "x"), message_of("assistant", kAnswer)}, false);
  } catch (const FormatError&) {
    return std::nullopt;  // a template may demand other messages
  }
  const size_t at = whole.rfind(kAnswer);
  if (at == whole.npos) return std::nullopt;
  const std::vector<int32_t> ids =
      tokenizer_->encode(whole.substr(at + std::string_view(kAnswer).size()), false);
  if (ids.empty()) return std::nullopt;
  const std::vector<int32_t> first = {ids.front()};
  const bool is_special =
      tokenizer_->decode(first, true).empty() && !tokenizer_->decode(first, false).empty();
  return is_special ? std::optional<int64_t>(ids.front()) : std::nullopt;
}

}  // namespace accel
