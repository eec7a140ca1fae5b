#include "core/name_pattern.h"

#include <fnmatch.h>

namespace accel {
namespace {

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

/// What a mistyped pattern may have meant: each name itself, the pattern ending like it, and the
/// pattern wherever in a name it fits.
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

bool name_matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string UnmatchedPattern::message() const {
  return "'" + pattern + "' matches no " + kind;
}

std::string UnmatchedPattern::hint() const {
  std::string near = did_you_mean(pattern, plausible_patterns(pattern, names));
  if (!near.empty() || names.empty()) return near;
  constexpr size_t kShown = 4;
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    out += (i > 0 ? ", '" : "'") + names[i] + "'";
  }
  return "the " + kind + "s are " + out + (names.size() > kShown ? ", ..." : "");
}

}  // namespace accel
