// Tables of words of a trainer and those of recipes.
#pragma once

#include <string>

namespace accel {

struct Translation {
  const char* theirs;
  const char* ours;
};

/// The recipe's word, or null.
template <size_t N>
const char* translation(const Translation (&table)[N], const std::string& word) {
  for (const Translation& row : table) {
    if (word == row.theirs) return row.ours;
  }
  return nullptr;
}

}  // namespace accel
