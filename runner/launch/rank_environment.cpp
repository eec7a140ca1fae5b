#include "runner/launch/rank_environment.h"

#include <algorithm>
#include <string_view>

extern char** environ;

namespace accel {

std::vector<std::string> RankEnvironment::all() const {
  std::vector<std::string> lines;
  for (char** line = environ; *line; ++line) {
    const std::string_view text(*line);
    const std::string_view name = text.substr(0, text.find('='));
    const auto same = [name](const auto& one) { return one.first == name; };
    if (std::none_of(set_.begin(), set_.end(), same)) lines.emplace_back(text);
  }
  for (const auto& [name, value] : set_) {
    if (!value.empty()) lines.push_back(name + "=" + value);
  }
  return lines;
}

}  // namespace accel
