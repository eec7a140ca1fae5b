// Any bytes taken for a pickle are read or refused, and what is read is written so that it reads
// back the same. A first byte of '4' asks for protocol 4 with the state of objects, else it is 2.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "formats/tensors/pickle.h"
#include "tests/fuzz/memory_watch.h"

namespace accel {
namespace {

/// Whether the writer, which ends names by a line, can write it.
bool plain_name(const Value::Global& global) {
  return global.module.find('\n') == std::string::npos &&
         global.name.find('\n') == std::string::npos;
}

void check(const PickleRules& rules, ByteSpan pickle) {
  Value value;
  {
    const MemoryWatch watch(pickle.size());
    value = read_pickle(pickle, rules);
  }
  const std::string first = write_pickle(value);
  constexpr size_t kSmall = 4096;  // what is shared is written out, which may pass the limits
  if (first.size() > kSmall || rules.protocol != 2) return;
  if (write_pickle(read_pickle(as_bytes(first), rules)) != first) std::abort();
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const accel::ByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const bool wide = data[0] == '4';
  try {
    accel::check({accel::plain_name, wide ? 4 : 2, wide}, bytes);
  } catch (const accel::FormatError&) {
  }
  return 0;
}
