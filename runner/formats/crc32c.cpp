#include "runner/formats/crc32c.h"

#include <array>

namespace accel {
namespace {

constexpr std::array<uint32_t, 256> make_crc32c_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrc32cTable = make_crc32c_table();

}  // namespace

uint32_t crc32c(std::string_view data) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : data) {
    crc = kCrc32cTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

uint32_t masked_crc32c(std::string_view data) {
  constexpr uint32_t kOffset = 0xa282ead8;
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + kOffset;
}

}  // namespace accel
