// Names of files that another program chose.
#pragma once

#include <algorithm>
#include <string>

namespace accel {

/// Whether a name cannot lead out of its folder or hide in it, on any system.
inline bool is_plain_file_name(const std::string& name) {
  constexpr size_t kMaxFileName = 255;
  return !name.empty() && name.size() <= kMaxFileName && name[0] != '.' &&
         name.find("..") == name.npos &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) {
           return c < ' ' || c == 0x7f || c == '/' || c == '\\' || c == ':';
         });
}

}  // namespace accel
