// Checksums: XXH3 for checkpoints, CRC-32C for TFRecord.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/bytes.h"

namespace accel {

/// Incremental checksum.
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

/// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view data);

/// Rotated and offset, as TFRecord stores it.
uint32_t masked_crc32c(std::string_view data);

}  // namespace accel
