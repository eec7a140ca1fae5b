#include "runner/editor/quick_fixes.h"

#include <string_view>

namespace accel {
namespace {

/// The text between `start` and `end`, which ends `text`; null for others.
std::optional<std::string> between(std::string_view text, std::string_view start,
                                   std::string_view end) {
  const size_t at = text.find(start);
  if (at == text.npos || !text.ends_with(end)) return std::nullopt;
  const size_t begin = at + start.size();
  if (begin + end.size() > text.size()) return std::nullopt;
  const std::string_view name = text.substr(begin, text.size() - end.size() - begin);
  if (name.empty() || name.find('\'') != name.npos) return std::nullopt;
  return std::string(name);
}

}  // namespace

std::optional<std::string> proposed_name(const Diagnostic& found) {
  if (found.severity == Severity::kWarning) return between(found.message, "is called '", "' now");
  return found.hint.starts_with("did you mean '") ? between(found.hint, "did you mean '", "'?")
                                                  : std::nullopt;
}

}  // namespace accel
