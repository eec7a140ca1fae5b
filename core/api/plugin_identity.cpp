#include "core/api/plugin_identity.h"

#include <algorithm>

namespace accel {

bool is_vendor_name(const std::string& name) {
  const auto plain = [](const std::string& part) {
    const auto in_word = [](char c) { return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9'); };
    return !part.empty() && in_word(part[0]) && std::all_of(part.begin(), part.end(), [&](char c) {
      return in_word(c) || c == '_' || c == '-' || c == '.';
    });
  };
  const size_t slash = name.find('/');
  return name.size() <= 64 && slash != name.npos && plain(name.substr(0, slash)) &&
         plain(name.substr(slash + 1));
}

std::string vendor_of(const std::string& name) {
  return name.substr(0, name.find('/'));
}

}  // namespace accel
