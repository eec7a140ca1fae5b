#include "data/datasets/text/chat_encoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kAssistant = "assistant";
constexpr int kDeepestRow = 64;
constexpr size_t kMostLineBytes = size_t{16} << 20;

bool is_answer(const Json& message) {
  return message.at("role") == kAssistant;
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

}  // namespace

Json chat_variables(const Json& row, const Tokenizer& tokenizer) {
  Json out = Json::object();
  const auto more = row.find("chat_template_kwargs");
  if (more != row.end() && more->is_object()) out = *more;
  if (row.contains("tools")) out["tools"] = row["tools"];
  const SpecialTokens& special = tokenizer.special();
  out["bos_token"] = special.bos ? tokenizer.token(*special.bos) : "";
  out["eos_token"] = special.eos ? tokenizer.token(*special.eos) : "";
  out["messages"] = row.at("messages");
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

ChatEncoder::ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_template,
                         ChatAnswers answers)
    : tokenizer_(std::move(tokenizer)), template_(chat_template), answers_(answers) {}

std::string ChatEncoder::text_of(const Json& variables, size_t messages, bool prompt) const {
  Json some = variables;
  Json& list = some["messages"];
  while (list.size() > messages) list.erase(list.size() - 1);
  some["add_generation_prompt"] = prompt;
  return template_.render(some);
}

/// Number of tokens within the first bytes of the text. A token that crosses the boundary belongs
/// to the rest.
size_t ChatEncoder::tokens_in(const std::string& text, size_t bytes,
                              const std::vector<int32_t>& ids) const {
  if (bytes == text.size()) return ids.size();
  const std::vector<int32_t> own = tokenizer_->encode(text.substr(0, bytes), false);
  const auto common = std::mismatch(own.begin(), own.end(), ids.begin(), ids.end()).second;
  return static_cast<size_t>(common - ids.begin());
}

ChatTokens ChatEncoder::encode(const Json& row) const {
  const auto found = row.find("messages");
  check_messages(found == row.end() ? Json() : *found);
  const Json variables = chat_variables(row, *tokenizer_);
  const Json& messages = variables["messages"];
  const std::string text = text_of(variables, messages.size(), false);
  ChatTokens out{tokenizer_->encode(text, false), {}};
  out.answers.resize(out.ids.size());
  for (size_t i = messages.size(); i-- > 0;) {
    if (!is_answer(messages[i])) continue;
    const std::string before = text_of(variables, i, true);
    const std::string with = text_of(variables, i + 1, false);
    if (!with.starts_with(before) || !text.starts_with(with)) {
      throw FormatError(
          accel::text("the template writes message {} differently when it is the last one, so its "
                      "trained tokens are ambiguous",
                      i + 1));
    }
    const size_t begin = tokens_in(text, before.size(), out.ids);
    const size_t end = tokens_in(text, with.size(), out.ids);
    for (size_t at = begin; at < end; ++at) out.answers[at] = 1;
    if (answers_ == ChatAnswers::kLast) break;
  }
  return out;
}

}  // namespace accel
