// printf() into a string.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace accel {

/// Up to 255 characters.
template <class... Args>
std::string formatted(const char* pattern, Args... args) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

}  // namespace accel
