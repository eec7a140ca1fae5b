// Any bytes taken for a WebDataset archive are read or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "formats/records/webdataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    accel::WebdatasetReader reader(file, {"txt", "json.label", "txt"}, "fuzz.tar");
    volatile size_t length = 0;
    for (bool more = true; more;) {
      std::vector<std::string_view> fields;
      try {
        more = reader.next(fields);
      } catch (const accel::DataError&) {
      }
      for (const std::string_view field : fields) length = length + field.size();
    }
  } catch (const accel::DataError&) {
  }
  return 0;
}
