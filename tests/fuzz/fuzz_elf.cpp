// Any bytes taken for a plugin's file are read or refused.
#include <cstddef>
#include <cstdint>

#include "formats/program/elf.h"
#include "tests/fuzz/memory_watch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const accel::ByteSpan file(reinterpret_cast<const std::byte*>(data), size);
  const accel::MemoryWatch watch(size);
  try {
    volatile std::byte sum{};
    for (const accel::ElfSection& section : accel::read_elf(file).sections) {
      if (section.name == "x") continue;
      for (const std::byte byte : section.bytes.first(std::min<size_t>(64, section.bytes.size()))) {
        sum = sum ^ byte;
      }
    }
  } catch (const accel::FormatError&) {
  }
  return 0;
}
