// Regular expressions as options of reward functions.
#pragma once

#include <optional>
#include <string>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/recipe/rules.h"
#include "text/pattern.h"

namespace accel {

/// A regular expression that Pattern supports.
inline Rule<std::string> valid_text_pattern() {
  const auto holds = [](const std::string& expression) {
    try {
      Pattern::regex(expression);
      return !expression.empty();
    } catch (const FormatError&) {
      return false;
    }
  };
  return {holds, "a regular expression without groups that do more than match", ""};
}

inline Rule<std::optional<std::string>> valid_pattern() {
  return if_given<std::optional>(valid_text_pattern());
}

}  // namespace accel
