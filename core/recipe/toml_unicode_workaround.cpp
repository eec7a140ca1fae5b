#include "core/recipe/toml_unicode_workaround.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace accel {
namespace {

// UTF-8 (RFC 3629): U+F0000 to U+FFFFF is F3 B0-BF and two more bytes. The second byte has the low
// four bits of a three-byte character's first byte; the two others are equal to its others.
constexpr char kPlane15 = '\xF3';
constexpr unsigned kSecond = 0xB0;

unsigned byte_at(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool in_plane15(std::string_view text, size_t at) {
  return text[at] == kPlane15 && byte_at(text, at + 1) >= kSecond;
}

bool escapes_to_plane15(std::string_view text, size_t at) {
  constexpr std::string_view kEscape = "\\U000";
  return text.substr(at, kEscape.size()) == kEscape &&
         (byte_at(text, at + kEscape.size()) | 0x20) == 'f';
}

}  // namespace

std::string to_plane15(std::string_view text) {
  std::string moved;
  moved.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, character_length(text, at));
    if (length == 2) {
      moved += {kPlane15, static_cast<char>(kSecond),
                static_cast<char>(0x80 | (byte_at(text, at) & 0x1F)), text[at + 1]};
    } else if (length == 3) {
      moved += {kPlane15, static_cast<char>(kSecond | (byte_at(text, at) & 0x0F)), text[at + 1],
                text[at + 2]};
    } else {
      moved.append(text.substr(at, length));
    }
    at += length;
  }
  return moved;
}

std::string from_plane15(std::string_view text) {
  std::string moved;
  moved.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text.size() - at < 4 || !in_plane15(text, at)) {
      moved += text[at++];
      continue;
    }
    const unsigned first = byte_at(text, at + 1) & 0x0F, second = byte_at(text, at + 2);
    if (first == 0 && second < 0xA0) {
      moved += static_cast<char>(0xC0 | (second & 0x1F));
    } else {
      moved += {static_cast<char>(0xE0 | first), text[at + 2]};
    }
    moved += text[at + 3];
    at += 4;
  }
  return moved;
}

std::optional<size_t> first_in_plane15(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_plane15(text, at) || escapes_to_plane15(text, at)) return at;
  }
  return std::nullopt;
}

}  // namespace accel
