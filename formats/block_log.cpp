#include "formats/block_log.h"

#include <zlib.h>

#include <algorithm>

#include "core/base/bytes.h"

namespace accel {
namespace {

constexpr uint64_t kBlockBytes = 32768;
constexpr uint64_t kHeadBytes = 7;  // checksum, length, fragment type

enum class Fragment : uint8_t { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

Fragment fragment_type(bool first, bool last) {
  if (first) return last ? Fragment::kWhole : Fragment::kFirst;
  return last ? Fragment::kLast : Fragment::kMiddle;
}

}  // namespace

std::string block_log_frames(std::string_view record, uint64_t offset) {
  std::string out;
  bool first = true;
  do {
    uint64_t room = kBlockBytes - (offset + out.size()) % kBlockBytes;
    if (room < kHeadBytes) {
      out.append(room, '\0');
      room = kBlockBytes;
    }
    const std::string_view piece = record.substr(0, room - kHeadBytes);
    record.remove_prefix(piece.size());
    std::string body(1, static_cast<char>(fragment_type(first, record.empty())));
    body += piece;
    const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
    put_little(out, static_cast<uint32_t>(::crc32(0, bytes, static_cast<uInt>(body.size()))));
    put_little(out, static_cast<uint16_t>(piece.size()));
    out += body;
    first = false;
  } while (!record.empty());
  return out;
}

}  // namespace accel
