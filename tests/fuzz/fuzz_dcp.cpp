// Any bytes taken for a distributed checkpoint are read or refused: four bytes of length, that many
// of `.metadata`, and the rest for whatever file it names.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "formats/tensors/dcp.h"
#include "tests/fuzz/memory_watch.h"
#include "tests/fuzz/touch.h"

namespace accel {
namespace {

void read_and_touch(ByteSpan metadata, ByteSpan data) {
  const DcpState state = read_dcp([&](const std::string& name) {
    return SharedBytes{name == kDcpMetadataFile ? metadata : data, nullptr};
  });
  for (const auto& [name, array] : state.tensors) touch(ByteSpan(array.data(), array.bytes()));
  for (const auto& [name, value] : state.objects) touch(value);
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const accel::ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (size < 4) return 0;
  const size_t claimed = accel::ByteReader(bytes, "the input").little<uint32_t>();
  const size_t metadata = std::min(claimed, size - 4);
  try {
    // What describes the parts may unfold more than what they hold.
    constexpr size_t kMetadataTimes = 64;
    const accel::MemoryWatch watch(size + kMetadataTimes * metadata);
    accel::read_and_touch(bytes.subspan(4, metadata), bytes.subspan(4 + metadata));
  } catch (const accel::FormatError&) {
  }
  return 0;
}
