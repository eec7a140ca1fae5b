#include "core/base/glob.h"

#include <fnmatch.h>

#include <algorithm>

namespace accel {
namespace {

std::vector<std::string> path_components(const std::string& path) {
  std::vector<std::string> components;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    components.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return components;
}

}  // namespace

bool name_matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return name_matches(pattern, name); });
}

bool path_matches(const std::string& pattern, const std::string& path) {
  const std::vector<std::string> wanted = path_components(pattern);
  // reached[i]: the components so far match the first i of the pattern. All states advance
  // together, so the time is linear in both lengths.
  std::vector<bool> reached(wanted.size() + 1);
  const auto skip_empty_matches = [&] {
    for (size_t i = 0; i + 1 < wanted.size(); ++i) {
      if (reached[i] && wanted[i] == "**") reached[i + 1] = true;
    }
  };
  reached[0] = true;
  skip_empty_matches();
  for (const std::string& name : path_components(path)) {
    std::vector<bool> next(reached.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!reached[i]) continue;
      if (wanted[i] == "**") {
        next[i] = true;
        next[i + 1] = next[i + 1] || i + 1 == wanted.size();
      } else if (name_matches(wanted[i], name)) {
        next[i + 1] = true;
      }
    }
    reached = std::move(next);
    skip_empty_matches();
  }
  return reached.back();
}

}  // namespace accel
