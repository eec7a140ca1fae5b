#include "data/datasets/text/chat_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNone = std::string::npos;
/// Two private-use characters, which no template looks for.
constexpr std::string_view kProbe = "\xee\xa1\xb3\xee\xa2\xb5";

/// Bytes that both texts begin with, in whole characters.
size_t common_prefix(std::string_view a, std::string_view b) {
  auto at =
      static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto splits = [&](std::string_view text) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (at > 0 && (splits(a) || splits(b))) --at;
  return at;
}

/// The content with the probe after its last character that is not white space; null if it is no
/// text, or has none.
Json probed(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_string()) return nullptr;
  std::string text = content->get<std::string>();
  const size_t last = text.find_last_not_of(" \t\n\v\f\r");
  if (last == std::string::npos) return nullptr;
  Json out = message;
  out["content"] = text.insert(last + 1, kProbe);
  return out;
}

}  // namespace

std::string ChatAnswerFinder::text_of(size_t messages, bool prompt) const {
  Json some = variables_;
  Json& list = some["messages"];
  while (list.size() > messages) list.erase(list.size() - 1);
  some["add_generation_prompt"] = prompt;
  return template_.render(some);
}

/// Where the content of a message ends in the text of the first messages; kNone if it is not
/// written once and unchanged.
size_t ChatAnswerFinder::content_end(const std::string& text, size_t messages,
                                     size_t message) const {
  Json changed = probed(variables_["messages"][message]);
  if (changed.is_null()) return kNone;
  Json some = variables_;
  Json& list = some["messages"];
  while (list.size() > messages) list.erase(list.size() - 1);
  list[message] = std::move(changed);
  some["add_generation_prompt"] = false;
  const std::string longer = template_.render(some);
  const size_t end = longer.find(kProbe);
  if (end == std::string::npos) return kNone;
  return longer.substr(0, end) + longer.substr(end + kProbe.size()) == text ? end : kNone;
}

ChatSpan ChatAnswerFinder::answer(size_t message) const {
  const std::string before = text_of(message, true), with = text_of(message + 1, false);
  if (with.starts_with(before) && text_.starts_with(with)) return {before.size(), with.size()};
  const auto refuse = [&] {
    throw FormatError(
        accel::text("the template writes message {} differently when it is the last one, so its "
                    "trained tokens are ambiguous",
                    message + 1));
  };
  const size_t all = variables_["messages"].size();
  const size_t here = content_end(text_, all, message);
  const size_t alone = content_end(with, message + 1, message);
  // The prompt may end with text that the answer lacks, such as the start of its reasoning.
  const size_t begin = common_prefix(before, text_);
  if (here == kNone || alone == kNone || begin > here) refuse();
  if (message > 0) {
    const size_t previous = content_end(text_, all, message - 1);
    if (previous == kNone ? !text_.starts_with(text_of(message, false)) : begin < previous) {
      refuse();
    }
  }
  const std::string_view closing = std::string_view(text_).substr(here);
  return {begin, here + common_prefix(closing, std::string_view(with).substr(alone))};
}

std::vector<ChatSpan> ChatAnswerFinder::answers(ChatAnswers which) const {
  std::vector<ChatSpan> out;
  const Json& messages = variables_["messages"];
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].at("role") != "assistant") continue;
    out.push_back(answer(i));
    if (which == ChatAnswers::kLast) break;
  }
  return out;
}

std::vector<ChatSpan> ChatAnswerFinder::generated(const RenderedChat& whole,
                                                  ChatAnswers which) const {
  if (whole.lost_generation > 0) {
    throw FormatError(
        accel::text("line {}: a generation block inside a macro, a set block or a filter block has "
                    "no position in the text",
                    whole.lost_generation));
  }
  std::vector<ChatSpan> spans = whole.generations;
  if (which == ChatAnswers::kLast) {
    const Json& messages = variables_["messages"];
    size_t last = messages.size() - 1;
    while (last > 0 && messages[last].at("role") != "assistant") --last;
    const size_t begin = common_prefix(text_of(last, true), text_);
    std::erase_if(spans, [&](const ChatSpan& span) { return span.end <= begin; });
  }
  std::erase_if(spans, [](const ChatSpan& span) { return span.begin == span.end; });
  if (spans.empty()) {
    throw FormatError("the template's generation blocks write nothing of this conversation");
  }
  return spans;
}

}  // namespace accel
