#include "core/recipe/run_name.h"

#include <algorithm>
#include <cctype>

#include "core/base/digest.h"

namespace accel {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool is_plain_name(const std::string& name, size_t most) {
  return name.size() <= most && std::all_of(name.begin(), name.end(), is_plain) && name != "." &&
         name != "..";
}

std::string run_name_of(const std::string& stem, size_t most) {
  if (!stem.empty() && is_plain_name(stem, most)) return stem;
  constexpr size_t kDigits = 8;
  constexpr size_t kRoom = 4;  // for the number that `--new` adds
  std::string name;
  for (const char c : stem) {
    if (is_plain(c)) {
      name += c;
    } else if (!name.ends_with('_')) {
      name += '_';
    }
  }
  name.resize(std::min(name.size(), most - kRoom - 1 - kDigits));
  return name + '-' + digest_of(Digest::Kind::kSha256, stem).substr(0, kDigits);
}

}  // namespace accel
