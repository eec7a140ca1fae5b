// Reads the records of a log of blocks back, checking every frame.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace accel {

inline std::vector<std::string> block_log_records(const std::string& file, size_t head) {
  std::vector<std::string> records;
  std::string record;
  const auto byte = [&](size_t at) {
    return static_cast<uint32_t>(static_cast<uint8_t>(file.at(at)));
  };
  for (size_t at = head; at < file.size();) {
    const size_t room = 32768 - at % 32768;
    if (room < 7) {
      at += room;
      continue;
    }
    const uint32_t crc = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
    const size_t length = byte(at + 4) | byte(at + 5) << 8;
    const auto* body = reinterpret_cast<const Bytef*>(file.data()) + at + 6;
    if (at + 7 + length > file.size() || length + 7 > room ||
        ::crc32(0, body, static_cast<uInt>(length + 1)) != crc) {
      throw std::runtime_error("a broken frame at " + std::to_string(at));
    }
    record += file.substr(at + 7, length);
    if (byte(at + 6) == 1 || byte(at + 6) == 4) {
      records.push_back(record);
      record.clear();
    }
    at += 7 + length;
  }
  return records;
}

}  // namespace accel
