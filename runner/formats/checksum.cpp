#include "runner/formats/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

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

}  // namespace accel
