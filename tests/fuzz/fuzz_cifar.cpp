// Any bytes taken for an archive or a file of CIFAR-10's records are read or refused.
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "formats/archive/tar.h"
#include "formats/records/cifar.h"

namespace accel {
namespace {

/// Reads every value, so that a view beyond the file shows.
void read_records(const SharedBytes& file) try {
  const CifarRecords records(file, "fuzz.bin");
  volatile int64_t sum = 0;
  for (int64_t i = 0; i < records.size(); ++i) {
    const Array image = records.image(i);
    for (const uint8_t pixel : image.as<uint8_t>()) sum = sum + pixel;
    sum = sum + records.label(i);
  }
} catch (const DataError&) {
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const accel::SharedBytes file{{reinterpret_cast<const std::byte*>(data), size}, nullptr};
  accel::read_records(file);
  try {
    for (const accel::TarMember& member : accel::index_tar(file.view, "fuzz.tar")) {
      accel::read_records({file.view.subspan(member.offset, member.size), nullptr});
    }
  } catch (const accel::DataError&) {
  }
  return 0;
}
