// The log format of LevelDB: records cut so that none crosses a block of 32 KiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accel {

/// The bytes that add `record` to a log whose file is `offset` bytes long by now. Checksums are
/// plain CRC-32, as the logs of W&B and SwanLab have them.
std::string block_log_frames(std::string_view record, uint64_t offset);

}  // namespace accel
