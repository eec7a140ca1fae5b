// The lines of a JSON Lines file, for those who read each line themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace accel {

/// Calls `use` with each line that is not blank and its number, from 1. A byte order mark is
/// skipped.
template <class Use>
void each_line(std::string_view text, const Use& use) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) use(line, number);
  }
}

}  // namespace accel
