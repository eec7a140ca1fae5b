// LevelDB log framing: records split into fragments that do not cross 32 KiB blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accel {

/// The bytes that append `record` to a log of `offset` bytes. Checksums are plain CRC-32, as in the
/// logs of W&B and SwanLab.
std::string block_log_frames(std::string_view record, uint64_t offset);

}  // namespace accel
