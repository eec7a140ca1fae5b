// The chat template of a dataset.
#pragma once

#include <optional>
#include <string>

#include "text/chat/chat_template.h"

namespace accel {

/// The text of the template file, or of the tokenizer's template if `file` is empty. Throws
/// DataError if there is none.
std::string chat_template_source(const std::string& file, const std::string& tokenizer);

/// Parses the source of chat_template_source(). Without a `date`, warns of a template that reads
/// one. Throws DataError that names the file.
ChatTemplate parse_chat_template(const std::string& source, const std::string& file,
                                 const std::string& tokenizer, const std::string& date = {});

/// A template with its source; both empty for a tokenizer without one.
struct OptionalTemplate {
  std::string source = {};
  std::optional<ChatTemplate> parsed = {};
};

/// As the two above, for data that may be texts, which need no template.
OptionalTemplate optional_chat_template(const std::string& file, const std::string& tokenizer,
                                        const std::string& date);

}  // namespace accel
