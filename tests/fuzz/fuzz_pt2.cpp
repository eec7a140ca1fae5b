// Any bytes taken for an exported program are read or refused.
#include <cstddef>
#include <cstdint>

#include "formats/program/pt2.h"
#include "tests/fuzz/memory_watch.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const accel::MemoryWatch watch(size);
    const accel::SharedBytes file = {{reinterpret_cast<const std::byte*>(data), size}, nullptr};
    for (const auto& [name, tensor] : accel::read_pt2(file).tensors) accel::touch(tensor.bytes);
  } catch (const accel::FormatError&) {
  }
  return 0;
}
