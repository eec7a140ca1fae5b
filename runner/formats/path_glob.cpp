#include "runner/formats/path_glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

namespace accel {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

bool path_matches(const std::string& pattern, const std::string& path) {
  const std::vector<std::string> wanted = parts_of(pattern), found = parts_of(path);
  // Whether the names so far can be matched by so many parts of the pattern, as for any text and
  // stars: all at once, so that no pattern takes long.
  std::vector<bool> reached(wanted.size() + 1);
  const auto skip_folders = [&] {
    for (size_t i = 0; i + 1 < wanted.size(); ++i) {
      if (reached[i] && wanted[i] == "**") reached[i + 1] = true;
    }
  };
  reached[0] = true;
  skip_folders();
  for (const std::string& name : found) {
    std::vector<bool> next(reached.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!reached[i]) continue;
      if (wanted[i] == "**") {
        next[i] = true;
        next[i + 1] = next[i + 1] || i + 1 == wanted.size();
      } else if (fnmatch(wanted[i].c_str(), name.c_str(), 0) == 0) {
        next[i + 1] = true;
      }
    }
    reached = std::move(next);
    skip_folders();
  }
  return reached.back();
}

}  // namespace accel
