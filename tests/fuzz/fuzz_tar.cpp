// Any bytes taken for a tar archive are indexed or refused; every member lies inside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "formats/archive/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const accel::TarMember& member : accel::index_tar(file, "fuzz.tar")) {
      if (member.offset > size || member.size > size - member.offset) std::abort();
    }
  } catch (const accel::DataError&) {
  }
  return 0;
}
