// Any bytes taken for a safetensors file are read or refused.
#include <cstddef>
#include <cstdint>

#include "runner/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const accel::SharedBytes file = {{reinterpret_cast<const std::byte*>(data), size}, nullptr};
    volatile unsigned sum = 0;
    for (const auto& [name, array] : accel::read_safetensors(file).tensors) {
      for (size_t i = 0; i < array.bytes(); ++i)
        sum = sum + std::to_integer<unsigned>(array.data()[i]);
    }
  } catch (const accel::FormatError&) {
  }
  return 0;
}
