#include "data/datasets/text/chat_source.h"

#include "core/base/error.h"
#include "core/base/format_error.h"
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
                                 const std::string& tokenizer) {
  try {
    return ChatTemplate(source);
  } catch (const FormatError& error) {
    throw DataError(
        text("the chat template of '{}': {}", file.empty() ? tokenizer : file, error.what()),
        "docs/chat.md describes the supported subset of Jinja");
  }
}

}  // namespace accel
