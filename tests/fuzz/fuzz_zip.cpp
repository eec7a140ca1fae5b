// Any bytes taken for a zip archive are read or refused.
#include <cstddef>
#include <cstdint>

#include "formats/archive/zip.h"
#include "tests/fuzz/memory_watch.h"
#include "tests/fuzz/touch.h"

constexpr size_t kMaxUnzipped = size_t{1} << 20;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const accel::MemoryWatch watch(size);
    const accel::ZipReader zip({reinterpret_cast<const std::byte*>(data), size});
    for (const auto& [name, bytes] : zip.entries()) accel::touch(bytes);
  } catch (const accel::FormatError&) {
  }
  try {
    const accel::ByteSpan archive(reinterpret_cast<const std::byte*>(data), size);
    accel::touch(accel::unzip_member(archive, "m", kMaxUnzipped).view);
  } catch (const accel::FormatError&) {
  }
  return 0;
}
