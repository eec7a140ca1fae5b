// Any bytes taken for a torch file, or for the pickle inside one, are read or refused. The first
// byte says which.
#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/archive/zip.h"
#include "formats/tensors/torch_file.h"
#include "tests/fuzz/memory_watch.h"
#include "tests/fuzz/touch.h"

namespace accel {
namespace {

std::string archive_of(ByteSpan pickle) {
  std::string out;
  ZipWriter zip([&out](ByteSpan bytes) { out += as_text(bytes); });
  zip.add("x/data.pkl", pickle);
  zip.add("x/data/0", as_bytes("0123456789abcdef0123456789abcdef"));
  zip.add("x/version", as_bytes("3\n"));
  zip.finish();
  return out;
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const accel::ByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string archive = data[0] == 'p' ? accel::archive_of(bytes) : std::string();
  const accel::ByteSpan file = data[0] == 'p' ? accel::as_bytes(archive) : bytes;
  try {
    const accel::MemoryWatch watch(file.size());
    accel::touch(accel::read_torch_file({file, nullptr}));
  } catch (const accel::FormatError&) {
  }
  return 0;
}
