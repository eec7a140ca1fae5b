// Any bytes taken for a JPEG or PNG are decoded or refused.
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "formats/image/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    accel::decode_image(file, accel::Channels::kGray, "fuzz");
  } catch (const accel::DataError&) {
  }
  return 0;
}
