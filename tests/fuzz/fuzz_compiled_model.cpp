// Any bytes taken for a compiled model are read or refused.
#include <cstddef>
#include <cstdint>

#include "formats/program/compiled_model.h"
#include "tests/fuzz/memory_watch.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const accel::MemoryWatch watch(size);
    const accel::SharedBytes file = {{reinterpret_cast<const std::byte*>(data), size}, nullptr};
    const accel::CompiledModel model = accel::read_compiled_model(file);
    for (const accel::CompiledTensor& tensor : model.tensors) {
      accel::touch({tensor.data.data(), tensor.data.bytes()});
    }
    accel::touch(model.backward.code);
  } catch (const accel::FormatError&) {
  }
  return 0;
}
