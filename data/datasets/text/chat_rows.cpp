#include "data/datasets/text/chat_rows.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using ChatJson = nlohmann::ordered_json;

std::string quoted_keys(const ChatJson& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key.substr(0, 60));
  return quoted_list(keys);
}

/// "it has the fields 'a', 'b': ..."
std::string fields_hint(const ChatJson& row) {
  if (row.empty()) return "it has no fields";
  return text(
      "it has the fields {}: name the list with 'messages', or texts with 'prompt' and "
      "'completion'",
      quoted_keys(row));
}

const ChatJson* field_of(const ChatJson& row, const std::string& name) {
  const auto found = row.find(name);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

std::string text_field(const ChatJson& row, const std::string& name) {
  const ChatJson* value = field_of(row, name);
  if (!value || !value->is_string()) {
    throw DataError(text("has no text in the field '{}'", name), fields_hint(row));
  }
  return value->get<std::string>();
}

/// The message with the keys and roles of chat templates.
ChatJson as_message(ChatJson message, const ChatFields& fields, size_t number) {
  if (!message.is_object()) throw DataError(text("message {} has no role", number));
  const auto role = message.find(fields.role_key);
  if (role == message.end() || !role->is_string()) {
    throw DataError(text("message {} has no role", number),
                    text("it has the keys {}: name them with 'role_key' and 'content_key', such as "
                         "{role_key: from, content_key: value}",
                         quoted_keys(message)));
  }
  std::string name = role->get<std::string>();
  if (const auto other = fields.roles.find(name); other != fields.roles.end()) name = other->second;
  const ChatJson* content = field_of(message, fields.content_key);
  ChatJson out = ChatJson::object();
  out["role"] = std::move(name);
  if (content) out["content"] = *content;
  for (auto& [key, value] : message.items()) {
    if (key != fields.role_key && key != fields.content_key) out[key] = value;
  }
  return out;
}

void append_messages(ChatJson& all, const ChatJson& list, const ChatFields& fields) {
  for (const ChatJson& message : list) {
    all.push_back(as_message(message, fields, all.size() + 1));
  }
}

/// Joins the texts that are not empty.
std::string prompt_text(const ChatJson& row, const ChatFields& fields) {
  std::vector<std::string> parts = {text_field(row, fields.prompt.front())};
  for (size_t i = 1; i < fields.prompt.size(); ++i) {
    if (field_of(row, fields.prompt[i])) parts.push_back(text_field(row, fields.prompt[i]));
  }
  std::erase_if(parts, [](const std::string& part) { return trimmed(part).empty(); });
  if (parts.empty()) {
    throw DataError(text("has an empty text in the field '{}'", fields.prompt.front()),
                    "remove such rows, or skip them with 'on_bad_sample'");
  }
  return joined(parts, "\n\n");
}

void append_prompt_and_answer(ChatJson& all, const ChatJson& row, const ChatFields& fields) {
  const ChatJson* prompt = field_of(row, fields.prompt.front());
  if (prompt && prompt->is_array() && fields.prompt.size() == 1) {
    append_messages(all, *prompt, fields);
  } else {
    all.push_back({{"role", "user"}, {"content", prompt_text(row, fields)}});
  }
  const ChatJson* answer = field_of(row, fields.completion);
  if (answer && answer->is_array()) {
    append_messages(all, *answer, fields);
  } else {
    all.push_back({{"role", "assistant"}, {"content", text_field(row, fields.completion)}});
  }
}

/// Throws unless a message is the assistant's.
void require_answer(const ChatJson& messages) {
  std::set<std::string> roles;
  for (const ChatJson& message : messages) roles.insert(message.at("role").get<std::string>());
  if (roles.contains("assistant")) return;
  throw DataError("has no message of the role 'assistant', so nothing to learn",
                  text("its roles are {}: map them with 'roles', such as {human: user, gpt: "
                       "assistant}",
                       quoted_list(roles)));
}

}  // namespace

std::string ChatFields::identity() const {
  const ChatFields plain;
  std::string out;
  const auto add = [&](const char* key, const std::string& value, const std::string& usual) {
    if (value != usual) out.append(key).append(1, '=').append(value).append(1, '\0');
  };
  add("messages", messages, plain.messages);
  add("role_key", role_key, plain.role_key);
  add("content_key", content_key, plain.content_key);
  for (const auto& [from, to] : roles) add(("role " + from).c_str(), to, from);
  add("system", system, "");
  if (has_prompt() && prompt.size() > 1) add("prompt", joined(prompt, "\n"), "");
  return out;
}

ChatJson messages_of(const ChatJson& list, const ChatFields& fields) {
  ChatJson out = ChatJson::array();
  append_messages(out, list, fields);
  return out;
}

ChatJson with_messages(ChatJson row, const ChatFields& fields) {
  ChatJson messages = ChatJson::array();
  if (!fields.system.empty() && field_of(row, fields.system)) {
    const std::string system = text_field(row, fields.system);
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  }
  if (fields.has_prompt()) {
    append_prompt_and_answer(messages, row, fields);
  } else {
    const ChatJson* list = field_of(row, fields.messages);
    if (!list || !list->is_array() || list->empty()) {
      throw DataError("has no list of messages", fields_hint(row));
    }
    append_messages(messages, *list, fields);
  }
  require_answer(messages);
  row["messages"] = std::move(messages);
  return row;
}

}  // namespace accel
