// Any bytes taken for an index of MDS shards, or for a shard, are read or refused. The first byte
// chooses; of a shard the second is the number of its samples.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "formats/records/mds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  try {
    if (data[0] & 1) {
      accel::read_mds_index({reinterpret_cast<const char*>(rest.data()), rest.size()}, "index");
      return 0;
    }
    const accel::MdsShard shard{.columns = {{"label", "int", 8},
                                            {"text", "str", {}},
                                            {"small", "uint8", 1},
                                            {"raw", "bytes", {}}},
                                .file = "shard",
                                .packed_file = {},
                                .compression = {},
                                .bytes = rest.size(),
                                .samples = data[1]};
    accel::MdsReader reader(rest, shard, {"text", "label", "text", "small"}, "shard");
    volatile size_t length = 0;
    for (int64_t i = 0; i < shard.samples; ++i) {
      std::vector<std::string_view> fields;
      try {
        reader.next(fields);
      } catch (const accel::DataError&) {
      }
      for (const std::string_view field : fields) length = length + field.size();
    }
  } catch (const accel::Error&) {
  }
  return 0;
}
