#include "data/datasets/text/chat_rows.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "text/chat/chat_date.h"

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
  add("date", date, "");
  if (format == ChatFormat::kAuto) out.append("format=auto").append(1, '\0');
  if (has_prompt() && prompt.size() > 1) add("prompt", joined(prompt, "\n"), "");
  return out;
}

void check_format(const ChatFields& fields, const Node& node, Reading& reading) {
  if (fields.format != ChatFormat::kAuto) return;
  const ChatFields plain;
  const std::pair<const char*, bool> changes[] = {
      {"messages", fields.messages != plain.messages},
      {"role_key", fields.role_key != plain.role_key},
      {"content_key", fields.content_key != plain.content_key},
      {"roles", fields.roles != plain.roles},
      {"system", fields.system != plain.system},
      {"prompt", fields.has_prompt()},
      {"completion", fields.completion != plain.completion}};
  for (const auto& [key, is_changed] : changes) {
    if (!is_changed) continue;
    const Node::Entry* given = node.find(key);
    reading.problems.error(given ? given->where : node.where,
                           text("'format: auto' recognizes the fields, so '{}' has no effect", key),
                           "leave out one of the two");
  }
}

namespace {

bool has_text(const ChatJson& row, const std::string& name) {
  const ChatJson* value = field_of(row, name);
  return value && value->is_string();
}

/// A list of messages in the field, with either pair of keys.
std::optional<ChatForm> list_form(const ChatJson& row, const std::string& name, ChatFields fields) {
  const ChatJson* list = field_of(row, name);
  if (!list || !list->is_array() || list->empty() || !list->front().is_object()) {
    return std::nullopt;
  }
  const ChatJson& first = list->front();
  fields.messages = name;
  if (first.contains("from") && first.contains("value")) {
    fields.role_key = "from";
    fields.content_key = "value";
    fields.roles = {{"human", "user"},        {"gpt", "assistant"},
                    {"observation", "tool"},  {"function_response", "tool"},
                    {"chatgpt", "assistant"}, {"tool_response", "tool"}};
    return ChatForm{"ShareGPT conversations", std::move(fields)};
  }
  if (!first.contains("role")) return std::nullopt;
  return ChatForm{"messages", std::move(fields)};
}

/// A prompt and an answer in fields.
std::optional<ChatForm> prompt_form(const ChatJson& row, ChatFields fields) {
  struct Pair {
    const char* name;
    const char* prompt;
    const char* context;  ///< a second field of the prompt; empty: none
    const char* completion;
  };
  static constexpr std::array<Pair, 6> kPairs = {
      {{"alpaca's instructions", "instruction", "input", "output"},
       {"instructions with a response", "instruction", "context", "response"},
       {"prompts with a completion", "prompt", "", "completion"},
       {"prompts with a response", "prompt", "", "response"},
       {"questions with a response", "question", "", "response"},
       {"questions with an answer", "question", "", "answer"}}};
  for (const Pair& pair : kPairs) {
    const ChatJson *prompt = field_of(row, pair.prompt), *answer = field_of(row, pair.completion);
    if (!prompt || !answer || prompt->is_string() != answer->is_string()) continue;
    if (!prompt->is_string() && !prompt->is_array()) continue;
    const ChatJson* history = field_of(row, "history");
    if (history && history->is_array() && !history->empty()) {
      throw DataError("has earlier turns in 'history', which no option reads",
                      "convert the rows to a list of messages");
    }
    fields.prompt = {pair.prompt};
    if (has_text(row, pair.context)) fields.prompt.emplace_back(pair.context);
    fields.completion = pair.completion;
    return ChatForm{pair.name, std::move(fields)};
  }
  return std::nullopt;
}

/// A tool call as a separate message, whose text is JSON of {name, arguments}, or of a list
/// of these, as the assistant's message with tool calls.
void convert_tool_calls(ChatJson& messages) {
  for (ChatJson& message : messages) {
    const std::string role = message.at("role").get<std::string>();
    if (role != "function_call" && role != "tool_call") continue;
    const auto content = message.find("content");
    const bool is_text = content != message.end() && content->is_string();
    ChatJson calls = is_text ? ChatJson::parse(content->get_ref<const std::string&>(), nullptr,
                                               /*allow_exceptions=*/false)
                             : ChatJson();
    if (calls.is_object()) calls = ChatJson::array({std::move(calls)});
    ChatJson out = ChatJson::array();
    for (const ChatJson& call : calls.is_array() ? calls : ChatJson::array()) {
      if (!call.is_object() || !call.contains("name")) {
        out.clear();
        break;
      }
      out.push_back({{"type", "function"}, {"function", call}});
    }
    if (out.empty()) {
      throw DataError(text("has a message of the role '{}' whose text is not JSON of a call", role),
                      R"(write {"name": ..., "arguments": {...}}, or a list of these)");
    }
    message = {{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(out)}};
  }
}

}  // namespace

ChatForm recognized_form(const ChatJson& row, const ChatFields& given) {
  ChatFields fields;
  fields.date = given.date;
  for (const char* name : {"system", "system_prompt"}) {
    if (fields.system.empty() && has_text(row, name)) fields.system = name;
  }
  for (const char* name : {"messages", "conversations", "conversation"}) {
    if (auto form = list_form(row, name, fields)) return *std::move(form);
  }
  if (auto form = prompt_form(row, fields)) return *std::move(form);
  throw DataError("is of no form that 'format: auto' knows", fields_hint(row));
}

void say_forms(const std::string& path, const std::map<std::string, int64_t>& forms) {
  std::vector<std::string> counts;
  for (const auto& [name, count] : forms) counts.push_back(text("{} rows of {}", count, name));
  if (!counts.empty()) say(text("'{}': {}", path, joined(counts)));
}

void check_date(const std::string& date, const Node& node, Reading& reading) {
  if (date.empty()) return;
  try {
    ChatDate{date};
  } catch (const FormatError& error) {
    const Node::Entry* given = node.find("date");
    reading.problems.error(given ? given->node.where : node.where, error.what(),
                           "write the day that the model is to see in its prompts");
  }
}

ChatJson messages_of(const ChatJson& list, const ChatFields& fields) {
  ChatJson out = ChatJson::array();
  append_messages(out, list, fields);
  return out;
}

ChatJson with_messages(ChatJson row, const ChatFields& given) {
  const bool recognizes = given.format == ChatFormat::kAuto;
  const ChatFields fields = recognizes ? recognized_form(row, given).fields : given;
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
  if (recognizes) convert_tool_calls(messages);
  require_answer(messages);
  row["messages"] = std::move(messages);
  return row;
}

}  // namespace accel
