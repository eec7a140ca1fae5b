// The checksum of TFRecord and LevelDB-log framing.
#pragma once

#include <cstdint>
#include <string_view>

namespace accel {

/// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view data);

/// As record formats store it: rotated and offset, so that a checksum of checksummed data is sound.
uint32_t masked_crc32c(std::string_view data);

}  // namespace accel
