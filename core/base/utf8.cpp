#include "core/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace accel {
namespace {

/// Of a valid character.
uint32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return lead;
  uint32_t code = lead & (0x7fu >> character.size());
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
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
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const uint32_t code = code_point(text.substr(at, length));
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kLeast[length] || surrogate || code > 0x10ffff ? 0 : length;
}

bool is_utf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  for (size_t at = 0; at < text.size();) {
    uint64_t word = 0;
    if (at + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & kHighBits) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const size_t length = character_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool is_control(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return true;
  return byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
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

size_t display_width(std::string_view character) {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range kNone[] = {{0x300, 0x36f},   {0x200b, 0x200f}, {0x20d0, 0x20ff},
                             {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
  constexpr Range kWide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                             {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                             {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                             {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  const uint32_t code = code_point(character);
  const auto holds = [code](const Range& r) { return r.first <= code && code <= r.last; };
  if (std::any_of(std::begin(kNone), std::end(kNone), holds)) return 0;
  return std::any_of(std::begin(kWide), std::end(kWide), holds) ? 2 : 1;
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
