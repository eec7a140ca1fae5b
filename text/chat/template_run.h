// Rendering of a chat template's syntax tree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/chat/chat_date.h"
#include "text/chat/rendered_chat.h"
#include "text/chat/template_tree.h"

namespace accel {

/// Renders with `variables`, a dict. Throws FormatError with the line.
RenderedChat run_template(const std::vector<TemplateStatement>& statements,
                          const TemplateValue& variables, const std::optional<ChatDate>& date);

}  // namespace accel
