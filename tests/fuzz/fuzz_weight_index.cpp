// Any bytes taken for an index of weights are read or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/base/bytes.h"
#include "formats/tensors/weight_shards.h"
#include "tests/fuzz/memory_watch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const accel::MemoryWatch watch(size);
    const auto index = accel::read_weight_index({reinterpret_cast<const char*>(data), size});
    for (const auto& [name, file] : index.files) {
      if (file.find('/') != file.npos || file.find("..") != file.npos) std::abort();
    }
  } catch (const accel::FormatError&) {
  }
  return 0;
}
