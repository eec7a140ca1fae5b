#include "core/recipe/name_pattern.h"

#include <algorithm>

#include "core/base/text.h"

namespace accel {
namespace {

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

/// Corrections of a mistyped pattern: each name, the pattern with the name's last component, and
/// the pattern with a leading `*`.
std::vector<std::string> plausible_patterns(const std::string& pattern,
                                            const std::vector<std::string>& names) {
  const std::string stem = pattern.substr(0, pattern.size() - last_part(pattern).size());
  const std::string anywhere = "*" + pattern;
  std::vector<std::string> all;
  for (const std::string& name : names) {
    all.push_back(name);
    const std::string ending = stem + last_part(name);
    if (name_matches(ending, name)) all.push_back(ending);
    if (name_matches(anywhere, name)) all.push_back(anywhere);
  }
  return all;
}

}  // namespace

std::string UnmatchedPattern::message() const {
  return text("'{}' matches no {}", pattern, kind);
}

std::string UnmatchedPattern::hint() const {
  std::string near = did_you_mean(pattern, plausible_patterns(pattern, names));
  if (!near.empty() || names.empty()) return near;
  constexpr size_t kShown = 4;
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + std::min(names.size(), kShown));
  return text("the {}s are {}{}", kind, quoted_list(shown), names.size() > kShown ? ", ..." : "");
}

}  // namespace accel
