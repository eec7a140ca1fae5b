// Any bytes taken for JSON Lines are read or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "formats/records/jsonl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> text(reinterpret_cast<const std::byte*>(data), size);
  try {
    accel::JsonlReader reader(text, {"text", "label", "text"}, "fuzz.jsonl");
    volatile size_t length = 0;
    for (std::vector<std::string_view> fields; reader.next(fields);) {
      for (const std::string_view field : fields) length = length + field.size();
    }
  } catch (const accel::DataError&) {
  }
  return 0;
}
