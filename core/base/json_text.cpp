#include "core/base/json_text.h"

#include <charconv>
#include <cmath>

#include "core/base/utf8.h"

namespace accel {
std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text, at);
    out += length == 0 ? "\xef\xbf\xbd" : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string json_text(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : valid_utf8(text)) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20) {
      out += {'\\', 'u', '0', '0', kHex[u >> 4], kHex[u & 15]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace accel
