#include "formats/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace accel {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(ByteSpan bytes) {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->hash);
}

uint64_t checksum_of(ByteSpan bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hex_text(uint64_t value) {
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
  return out;
}

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
