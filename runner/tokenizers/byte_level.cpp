#include <array>

#include "runner/tokenizers/normalizer.h"
#include "runner/tokenizers/unicode.h"

namespace accel {
namespace {

constexpr uint32_t kFirstForOthers = 0x100;
constexpr size_t kByteLevelCharacters = 0x144;

/// Bytes that are printable Latin-1 stand for themselves.
bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct ByteLevelTable {
  std::array<std::string, 256> characters;
  std::array<int16_t, kByteLevelCharacters> bytes;  ///< by code point; -1: none

  ByteLevelTable() {
    bytes.fill(-1);
    uint32_t next = kFirstForOthers;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t code = stands_for_itself(byte) ? byte : next++;
      append_character(characters[byte], code);
      bytes[code] = static_cast<int16_t>(byte);
    }
  }
};

const ByteLevelTable& byte_level_table() {
  static const ByteLevelTable table;
  return table;
}

}  // namespace

std::string byte_level_text(std::string_view bytes) {
  const ByteLevelTable& table = byte_level_table();
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 2);
  for (const char c : bytes) text += table.characters[static_cast<unsigned char>(c)];
  return text;
}

bool byte_level_bytes(std::string_view text, std::string& bytes) {
  const ByteLevelTable& table = byte_level_table();
  const size_t before = bytes.size();
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = character_at(text, at);
    if (code >= kByteLevelCharacters || table.bytes[code] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(table.bytes[code]);
    at += length;
  }
  return true;
}

}  // namespace accel
