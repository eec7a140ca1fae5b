// Any bytes taken for delimited text are read or refused. The first byte chooses the dialect.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "formats/records/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> text(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const accel::CsvDialect dialect{data[0] & 1 ? ',' : '\t', (data[0] & 2) != 0};
  try {
    accel::CsvReader reader(text, dialect, "fuzz.csv");
    volatile size_t length = 0;
    for (std::vector<std::string_view> fields; reader.next(fields);) {
      for (const std::string_view field : fields) length = length + field.size();
    }
  } catch (const accel::DataError&) {
  }
  return 0;
}
