#include "data/datasets/text/chat_source.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"

namespace accel {

std::string chat_template_source(const std::string& file, const std::string& tokenizer) {
  if (!file.empty()) {
    const SharedBytes bytes = map_file(file);
    return {reinterpret_cast<const char*>(bytes.view.data()), bytes.view.size()};
  }
  if (auto found = find_chat_template(tokenizer)) return *std::move(found);
  throw DataError(text("the tokenizer '{}' has no chat template", tokenizer),
                  "set 'chat_template': a file in the subset of Jinja that docs/chat.md describes");
}

ChatTemplate parse_chat_template(const std::string& source, const std::string& file,
                                 const std::string& tokenizer, const std::string& date) {
  try {
    ChatTemplate out(source, date.empty() ? std::optional<ChatDate>() : ChatDate(date));
    if (date.empty() && out.reads_date()) {
      warn(text("'date' is not set, so the chat template of '{}' writes its default date",
                file.empty() ? tokenizer : file));
    }
    return out;
  } catch (const FormatError& error) {
    throw DataError(
        text("the chat template of '{}': {}", file.empty() ? tokenizer : file, error.what()),
        "docs/chat.md describes the supported subset of Jinja");
  }
}

OptionalTemplate optional_chat_template(const std::string& file, const std::string& tokenizer,
                                        const std::string& date) {
  if (file.empty() && !find_chat_template(tokenizer)) return {};
  std::string source = chat_template_source(file, tokenizer);
  ChatTemplate parsed = parse_chat_template(source, file, tokenizer, date);
  return {std::move(source), std::move(parsed)};
}

}  // namespace accel
