#include "formats/base64.h"

#include <cstdint>

namespace accel {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      group = group << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0u);
    }
    for (size_t i = 0; i < 4; ++i) {
      out += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string bytes;
  uint32_t group = 0;
  int digits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return std::nullopt;
    group = group << 6 | static_cast<uint32_t>(digit);
    if (++digits % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift);
    group = 0;
  }
  if (digits % 4 >= 2) bytes += static_cast<char>(group >> (digits % 4 == 2 ? 4 : 10));
  if (digits % 4 == 3) bytes += static_cast<char>(group >> 2);
  // Encoding again checks the padding and the unused bits.
  if (text.size() % 4 != 0 || base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace accel
