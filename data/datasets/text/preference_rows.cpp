#include "data/datasets/text/preference_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Row = nlohmann::ordered_json;

std::string keys_of(const Row& row) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key.substr(0, 60));
  return quoted_list(keys);
}

const Row* value_of(const Row& row, const std::string& name) {
  const auto found = row.find(name);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

/// A text or a list of messages; one message is a list. `names` lists the options of fields.
Row answer_of(const Row& row, const std::string& name, const ChatFields& fields,
              const char* names) {
  const Row* value = value_of(row, name);
  if (value && value->is_string()) return *value;
  if (value && value->is_array() && !value->empty()) return messages_of(*value, fields);
  if (value && value->is_object()) return messages_of(Row::array({*value}), fields);
  throw DataError(text("has no text or list of messages in the field '{}'", name),
                  text("it has the fields {}: name them with {}", keys_of(row), names));
}

/// The prompt, a text or a list of messages; null where a row has none.
const Row* prompt_of(const Row& row, const std::string& name) {
  const Row* prompt = value_of(row, name);
  if (prompt && !prompt->is_string() && !prompt->is_array()) {
    throw DataError(text("has no text or list of messages in the field '{}'", name));
  }
  return prompt;
}

Row message(const char* role, const Row& content) {
  return Row::array({{{"role", role}, {"content", content}}});
}

Row slice(const Row& list, size_t begin, size_t end) {
  Row out = Row::array();
  for (size_t i = begin; i < end; ++i) out.push_back(list[i]);
  return out;
}

/// Index of the first element that differs. As in TRL, the last element of the shorter sequence
/// never belongs to the common beginning.
template <class Sequence>
size_t first_difference(const Sequence& chosen, const Sequence& rejected) {
  const size_t shared = std::min(chosen.size(), rejected.size());
  size_t at = 0;
  while (at + 1 < shared && chosen[at] == rejected[at]) ++at;
  return at;
}

/// Whether the byte continues a character of UTF-8.
bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

void split_texts(Row& row) {
  const auto chosen = row["chosen"].get<std::string>();
  const auto rejected = row["rejected"].get<std::string>();
  if (chosen.empty() || rejected.empty()) throw DataError("has an empty answer and no prompt");
  size_t at = first_difference(chosen, rejected);
  while (at > 0 && continues(chosen[at])) --at;
  // The space before a word belongs to its token.
  const bool differs = chosen[at] != rejected[at];
  if (differs && at > 0 && chosen[at - 1] == ' ') --at;
  row["prompt"] = chosen.substr(0, at);
  row["chosen"] = chosen.substr(at);
  row["rejected"] = rejected.substr(at);
}

void split_messages(Row& row, const Row* prompt) {
  const Row chosen = row["chosen"], rejected = row["rejected"];
  const size_t at = first_difference(chosen, rejected);
  row["prompt"] = slice(chosen, 0, at);
  row["chosen"] = slice(chosen, at, chosen.size());
  row["rejected"] = slice(rejected, at, rejected.size());
  if (at > 0) return;
  if (!prompt) {
    throw DataError("has no prompt: 'chosen' and 'rejected' begin with different messages",
                    "name the field of the prompt with 'prompt'");
  }
  row["prompt"] = message("user", *prompt);
}

void add_system(Row& row, const Row& given, const ChatFields& fields) {
  const Row* system = fields.system.empty() ? nullptr : value_of(given, fields.system);
  if (!system) return;
  if (!system->is_string()) throw DataError(text("has no text in the field '{}'", fields.system));
  if (!row["prompt"].is_array()) {
    throw DataError(
        text("is texts, which have no place for the system message '{}'", fields.system),
        "set 'texts_as_messages: true'");
  }
  if (system->get<std::string>().empty()) return;
  Row all = message("system", *system);
  for (Row& item : row["prompt"]) all.push_back(std::move(item));
  row["prompt"] = std::move(all);
}

}  // namespace

std::string PreferenceFields::identity() const {
  const std::vector<std::string> names = {prompt_field, chosen, rejected,
                                          texts_as_messages ? "messages" : ""};
  return joined(names, "\n") + ChatFields::identity();
}

Row preference_row(const Row& row, const PreferenceFields& fields) {
  Row out = row;
  constexpr auto kNames = "'prompt', 'chosen' and 'rejected'";
  out["chosen"] = answer_of(row, fields.chosen, fields, kNames);
  out["rejected"] = answer_of(row, fields.rejected, fields, kNames);
  const bool messages = out["chosen"].is_array();
  if (messages != out["rejected"].is_array()) {
    throw DataError(text("has messages in one of '{}' and '{}', and a text in the other",
                         fields.chosen, fields.rejected));
  }
  const Row* prompt = prompt_of(row, fields.prompt_field);
  const bool list = prompt && prompt->is_array();
  if (messages && !list) {
    split_messages(out, prompt);
  } else if (list) {
    out["prompt"] = messages_of(*prompt, fields);
  } else if (!prompt) {
    if (fields.texts_as_messages) {
      throw DataError(text("has no prompt in the field '{}'", fields.prompt_field),
                      "leave out 'texts_as_messages', or name the field with 'prompt'");
    }
    split_texts(out);
  } else {
    out["prompt"] = fields.texts_as_messages ? message("user", *prompt) : *prompt;
  }
  if (!messages && out["prompt"].is_array()) {
    for (const char* key : {"chosen", "rejected"}) {
      const Row answer = out[key];
      out[key] = message("assistant", answer);
    }
  }
  add_system(out, row, fields);
  return out;
}

std::string preference_form(const Row& row, const Row& pair, const PreferenceFields& fields) {
  const bool messages = pair.at("prompt").is_array();
  const Row& chosen = row.at(fields.chosen);
  const bool whole = chosen.is_array() && chosen.size() > pair.at("chosen").size();
  const bool implicit = whole || !value_of(row, fields.prompt_field);
  return std::string(messages ? "messages" : "texts") +
         (implicit ? ", whose common beginning is the prompt" : " with a prompt");
}

std::string UnpairedFields::identity() const {
  const std::vector<std::string> names = {prompt_field, answer, label,
                                          texts_as_messages ? "messages" : ""};
  return joined(names, "\n") + ChatFields::identity();
}

namespace {

/// A conversation: its last message is the answer.
void split_conversation(Row& row, const Row& conversation, const ChatFields& fields) {
  const Row messages = messages_of(conversation, fields);
  const size_t prompt = messages.size() - 1;
  if (messages[prompt].value("role", "") != "assistant") {
    throw DataError(
        text("has no answer: the last message of '{}' is not the assistant's", fields.messages));
  }
  row["prompt"] = slice(messages, 0, prompt);
  row["completion"] = slice(messages, prompt, messages.size());
}

}  // namespace

Row unpaired_row(const Row& row, const UnpairedFields& fields) {
  Row out = row;
  const Row* conversation = value_of(row, fields.messages);
  if (conversation && conversation->is_array() && !conversation->empty()) {
    split_conversation(out, *conversation, fields);
    add_system(out, row, fields);
    return out;
  }
  out["completion"] = answer_of(row, fields.answer, fields, "'prompt', 'completion' and 'label'");
  const Row* prompt = prompt_of(row, fields.prompt_field);
  if (!prompt) {
    throw DataError(text("has no prompt in the field '{}'", fields.prompt_field),
                    text("it has the fields {}: name it with 'prompt'", keys_of(row)));
  }
  const bool messages =
      fields.texts_as_messages || prompt->is_array() || out["completion"].is_array();
  if (messages) {
    out["prompt"] = prompt->is_array() ? messages_of(*prompt, fields) : message("user", *prompt);
    const Row answer = out["completion"];
    if (answer.is_string()) out["completion"] = message("assistant", answer);
  }
  add_system(out, row, fields);
  return out;
}

std::string PromptFields::identity() const {
  return joined(std::vector<std::string>{prompt_field, texts_as_messages ? "messages" : ""}, "\n") +
         ChatFields::identity();
}

Row prompt_only_row(const Row& row, const PromptFields& fields) {
  Row out = row;
  const Row* prompt = prompt_of(row, fields.prompt_field);
  if (!prompt) {
    throw DataError(text("has no prompt in the field '{}'", fields.prompt_field),
                    text("it has the fields {}: name it with 'prompt'", keys_of(row)));
  }
  if (prompt->is_array()) {
    out["prompt"] = messages_of(*prompt, fields);
  } else {
    out["prompt"] = fields.texts_as_messages ? message("user", *prompt) : *prompt;
  }
  add_system(out, row, fields);
  return out;
}

bool label_of(const Row& row, const UnpairedFields& fields) {
  const Row* label = value_of(row, fields.label);
  if (label && label->is_boolean()) return label->get<bool>();
  if (label && label->is_number() && (*label == 0 || *label == 1)) return *label == 1;
  throw DataError(
      text("has no label in the field '{}': true for a desirable answer, false for another",
           fields.label),
      text("it has the fields {}: name it with 'label'", keys_of(row)));
}

}  // namespace accel
