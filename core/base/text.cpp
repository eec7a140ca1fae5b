#include "core/base/text.h"

#include <algorithm>

namespace accel {
namespace detail {

std::string fill_text(std::string_view format, const std::string_view* values) {
  std::string out;
  size_t from = 0;
  for (size_t at = format.find("{}"); at != format.npos; at = format.find("{}", from)) {
    out.append(format.substr(from, at - from)).append(*values++);
    from = at + 2;
  }
  return out.append(format.substr(from));
}

}  // namespace detail

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return std::string(text.substr(0, text.find_last_not_of(kBlanks) + 1));
}

std::string hex_digits(std::span<const unsigned char> bytes) {
  constexpr auto kDigits = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : bytes) {
    out.append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
  return out;
}

}  // namespace accel
