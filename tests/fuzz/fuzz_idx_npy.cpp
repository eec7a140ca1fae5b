// Any bytes taken for an IDX, gzip or npy file are read or refused.
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "formats/archive/compression.h"
#include "formats/records/idx.h"
#include "formats/tensors/npy.h"

namespace accel {
namespace {

constexpr size_t kMaxInflated = size_t{1} << 20;

/// Reads every value, so that a view beyond the file shows.
template <class Read>
void read_all(const Read& read) {
  try {
    const Array array = read();
    volatile std::byte sum{};
    for (size_t i = 0; i < array.bytes(); ++i) sum = sum ^ array.data()[i];
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const accel::SharedBytes file{{reinterpret_cast<const std::byte*>(data), size}, nullptr};
  accel::read_all([&] { return accel::parse_idx(file, "fuzz.idx"); });
  accel::read_all([&] { return accel::parse_npy(file, "fuzz.npy"); });
  accel::read_all([&] {
    return accel::parse_idx(accel::gunzip(file.view, accel::kMaxInflated, "fuzz.gz"), "fuzz.gz");
  });
  return 0;
}
