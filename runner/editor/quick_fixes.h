// Quick fixes of the language server: the name that a diagnostic proposes.
#pragma once

#include <optional>
#include <string>

#include "core/recipe/diagnostic.h"

namespace accel {

/// A replacement for the text that a diagnostic underlines.
struct QuickFix {
  size_t begin = 0, end = 0;  ///< of that text, in bytes of the document
  std::string replacement;
};

/// The name in the hint of a diagnostic about a misspelled or deprecated name; null for others.
std::optional<std::string> proposed_name(const Diagnostic& found);

}  // namespace accel
