#include "data/datasets/text/chat_encoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "data/datasets/text/chat_answers.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepestRow = 64;
constexpr size_t kMostLineBytes = size_t{16} << 20;

bool is_answer(const Json& message) {
  return message.at("role") == "assistant";
}

void check_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) throw FormatError("has no list of messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const bool named =
        message.is_object() && message.contains("role") && message["role"].is_string();
    if (named) continue;
    throw FormatError(accel::text("message {} has no role", i + 1));
  }
  if (std::none_of(messages.begin(), messages.end(), is_answer)) {
    throw FormatError("has no message of the role 'assistant', so nothing to learn");
  }
}

/// The tools of a row, which many datasets store as JSON in a text.
Json tools_of(const Json& tools) {
  if (!tools.is_string()) return tools;
  const auto& text = tools.get_ref<const std::string&>();
  if (trimmed(text).empty()) return nullptr;
  Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) throw FormatError("has a text as 'tools' that is not JSON of a list");
  return parsed;
}

/// The message without nulls, and with its reasoning under each name that templates read.
Json with_reasoning(const Json& message) {
  Json out = Json::object(), reasoning;
  if (!message.is_object()) return message;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (reasoning.is_null() && found != message.end()) reasoning = *found;
  }
  if (!reasoning.is_null()) out["thinking"] = reasoning;
  for (const auto& item : message.items()) {
    if (!item.value().is_null()) out[item.key()] = item.value();
  }
  if (!reasoning.is_null()) out["reasoning_content"] = std::move(reasoning);
  return out;
}

}  // namespace

Json chat_variables(const Json& row, const Tokenizer& tokenizer) {
  Json out = {{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
  const SpecialTokens& special = tokenizer.special();
  const std::pair<const char*, std::optional<int32_t>> tokens[] = {
      {"bos_token", special.bos},  {"eos_token", special.eos}, {"unk_token", special.unk},
      {"pad_token", special.pad},  {"sep_token", special.sep}, {"cls_token", special.cls},
      {"mask_token", special.mask}};
  for (const auto& [name, id] : tokens) {
    if (id) out[name] = tokenizer.token(*id);
  }
  const auto more = row.find("chat_template_kwargs");
  if (more != row.end() && more->is_object()) out.update(*more);
  if (row.contains("documents")) out["documents"] = row["documents"];
  if (row.contains("tools")) out["tools"] = tools_of(row["tools"]);
  Json messages = Json::array();
  for (const Json& message : row.at("messages")) messages.push_back(with_reasoning(message));
  out["messages"] = std::move(messages);
  return out;
}

Json read_chat_row(std::string_view line) {
  if (line.size() > kMostLineBytes) throw FormatError("is longer than 16 MiB");
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kDeepestRow;
    return depth <= kDeepestRow;
  };
  Json row = Json::parse(line, watch, /*allow_exceptions=*/false);
  if (deep) throw FormatError("nests deeper than 64 levels");
  if (!row.is_object()) throw FormatError("is not a JSON object");
  return row;
}

ChatEncoder::ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, ChatTemplate chat_template,
                         ChatAnswers answers)
    : tokenizer_(std::move(tokenizer)), template_(std::move(chat_template)), answers_(answers) {}

ChatTokens ChatEncoder::encode(const Json& row) const {
  const auto found = row.find("messages");
  check_messages(found == row.end() ? Json() : *found);
  const Json variables = chat_variables(row, *tokenizer_);
  const RenderedChat whole = template_.render_spans(variables);
  const ChatAnswerFinder finder(template_, variables, whole.text);
  // As in transformers, a token across the end of a generation block belongs to it. Elsewhere it
  // belongs to the text that follows.
  const bool generated = template_.marks_generation();
  const std::vector<ChatSpan> answers =
      generated ? finder.generated(whole, answers_) : finder.answers(answers_);
  SpannedTokens tokens = tokenizer_->encode_spans(whole.text);
  ChatTokens out{std::move(tokens.ids), {}};
  out.answers.resize(out.ids.size());
  for (size_t i = 0; i < out.ids.size(); ++i) {
    const TokenSpan token = tokens.spans[i];
    out.answers[i] = std::any_of(answers.begin(), answers.end(), [&](const ChatSpan& answer) {
      return token.end > answer.begin &&
             (generated ? token.begin < answer.end : token.end <= answer.end);
    });
  }
  return out;
}

}  // namespace accel
