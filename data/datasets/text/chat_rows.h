// Rows of conversations in the shapes of common datasets, converted to messages.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/recipe/schema.h"

namespace accel {

/// Whether the options name the fields of a row, or each row is recognized by its fields.
enum class ChatFormat { kFields, kAuto };

template <>
struct EnumNames<ChatFormat> {
  static constexpr std::pair<ChatFormat, const char*> kValues[] = {{ChatFormat::kFields, "fields"},
                                                                   {ChatFormat::kAuto, "auto"}};
};

/// The fields of a row that form a conversation.
struct ChatFields {
  ChatFormat format = ChatFormat::kFields;
  std::string messages = "messages";
  std::string role_key = "role";
  std::string content_key = "content";
  std::map<std::string, std::string> roles;
  std::string system;
  std::vector<std::string> prompt;
  std::string completion;
  std::string date;  ///< of strftime_now in the template; empty: not defined

  /// Whether rows have a prompt and a completion in place of messages. Recipes resolved by version
  /// 0.1.0 have an empty text as prompt.
  bool has_prompt() const { return !prompt.empty() && prompt != std::vector<std::string>{""}; }
  /// What differs from the defaults, for fingerprints; empty for messages of {role, content}.
  std::string identity() const;
};

/// Reports a date that ChatDate cannot read.
void check_date(const std::string& date, const Node& node, Reading& reading);

/// Reports options that name other fields than the defaults, which resolved recipes have, beside
/// the format that recognizes them.
void check_format(const ChatFields& fields, const Node& node, Reading& reading);

/// Adds the keys of messages of ChatFields, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_message_keys(Schema<Options> schema) {
  using Map = std::map<std::string, std::string>;
  return std::move(schema)
      .field("role_key", static_cast<std::string Options::*>(&Options::role_key),
             "Key of a message's role: `from` in ShareGPT's format.")
      .hint_for({"message_field_role", "role_tag"})
      .field("content_key", static_cast<std::string Options::*>(&Options::content_key),
             "Key of a message's text: `value` in ShareGPT's format.")
      .hint_for({"message_field_content", "content_tag"})
      .field("roles", static_cast<Map Options::*>(&Options::roles),
             "The template's role for each role of the file that has another name, such as "
             "{human: user, gpt: assistant}.")
      .field("system", static_cast<std::string Options::*>(&Options::system),
             "Field of a system message, which comes first; left out in rows without it.")
      .field("date", static_cast<std::string Options::*>(&Options::date),
             "Date that the template's strftime_now writes, such as 2026-11-26 or '2026-11-26 "
             "17:30'. transformers writes the day of each call; a fixed date makes the tokens of a "
             "file the same each day. Empty: strftime_now is not defined.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_date(options.date, node, reading);
      });
}

/// Adds ChatFields, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_chat_fields(Schema<Options> schema) {
  return with_message_keys(
             std::move(schema)
                 .field("format", static_cast<ChatFormat Options::*>(&Options::format),
                        "fields: the options below name the fields. auto: each row "
                        "is recognized by its fields, as a list of messages, "
                        "ShareGPT, alpaca, or a prompt with a completion; the run "
                        "prints the number of rows of each form.")
                 .field("messages", static_cast<std::string Options::*>(&Options::messages),
                        "Field of the messages, a list of {role, content}.")
                 .hint_for({"conversations", "field_messages"}))
      .field("prompt", static_cast<std::vector<std::string> Options::*>(&Options::prompt),
             "Given, with 'completion': field of a text, which is a user's message, or fields that "
             "are joined by an empty line, such as [instruction, input]. A field that is empty in "
             "a row is left out. Or field of a list of messages.")
      .field("completion", static_cast<std::string Options::*>(&Options::completion),
             "Field of the assistant's answer to the prompt.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_format(options, node, reading);
        if (options.has_prompt() != options.completion.empty()) return;
        reading.problems.error(node.where, "'prompt' and 'completion' go together",
                               "name both fields, or neither for 'messages'");
      });
}

/// A form of rows and the fields that it has in a row.
struct ChatForm {
  std::string name;  ///< "ShareGPT conversations"
  ChatFields fields;
};

/// The form of a row; `given` has the options that remain. Throws DataError, without the place, for
/// an unknown form.
ChatForm recognized_form(const nlohmann::ordered_json& row, const ChatFields& given);

/// Prints "'talks.jsonl': 12 rows of ShareGPT conversations" for the number of rows by form.
void say_forms(const std::string& path, const std::map<std::string, int64_t>& forms);

/// A list of messages with the keys and roles of chat templates. Throws DataError, without the
/// place, for a message without a role.
nlohmann::ordered_json messages_of(const nlohmann::ordered_json& list, const ChatFields& fields);

/// The row with a list `messages` of {role, content}. Throws DataError, without the place, for a
/// row that lacks a field; its hint names the fields that the row has.
nlohmann::ordered_json with_messages(nlohmann::ordered_json row, const ChatFields& fields);

}  // namespace accel
