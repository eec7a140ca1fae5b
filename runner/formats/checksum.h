// The 64-bit XXH3 hash that checkpoints are checked with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runner/formats/bytes.h"

namespace accel {

/// Hashes bytes as they come by.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void update(ByteSpan bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t checksum_of(ByteSpan bytes);

/// 16 lower-case hex digits.
std::string hex_text(uint64_t value);

}  // namespace accel
