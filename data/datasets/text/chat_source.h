// The chat template of a dataset.
#pragma once

#include <string>

#include "text/chat/chat_template.h"

namespace accel {

/// The text of the template file, or of the tokenizer's template if `file` is empty. Throws
/// DataError if there is none.
std::string chat_template_source(const std::string& file, const std::string& tokenizer);

/// Parses the source of chat_template_source(). Throws DataError that names the file.
ChatTemplate parse_chat_template(const std::string& source, const std::string& file,
                                 const std::string& tokenizer);

}  // namespace accel
