// Any bytes taken for a safetensors file are read or refused.
#include <cstddef>
#include <cstdint>

#include "formats/tensors/safetensors.h"
#include "tests/fuzz/memory_watch.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const accel::MemoryWatch watch(size);
    const accel::SharedBytes file = {{reinterpret_cast<const std::byte*>(data), size}, nullptr};
    for (const auto& [name, array] : accel::read_safetensors(file).tensors) {
      accel::touch({array.data(), array.bytes()});
    }
  } catch (const accel::FormatError&) {
  }
  return 0;
}
