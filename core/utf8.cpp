#include "core/utf8.h"

#include <cstdint>

namespace accel {
namespace {

/// C0, DEL and C1: what a terminal would act on.
bool is_control(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return true;
  return byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

}  // namespace

size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : uint32_t{0};
  };
  const uint32_t lead = byte(at);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kLeast[length] || surrogate || code > 0x10ffff ? 0 : length;
}

std::optional<size_t> first_unreadable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t length = character_length(text, at);
    const bool layout = c == '\t' || c == '\n' || c == '\r';
    if (length == 0 || (is_control(text, at) && !layout)) return at;
    at += length;
  }
  return std::nullopt;
}

std::string printable(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text, at);
    if (length == 0 || is_control(text, at)) {
      const size_t bytes = length == 0 ? 1 : length;
      for (size_t i = at; i < at + bytes; ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      }
      at += bytes;
      continue;
    }
    out += text.substr(at, length);
    at += length;
  }
  return out;
}

}  // namespace accel
