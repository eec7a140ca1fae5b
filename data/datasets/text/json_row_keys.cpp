#include "data/datasets/text/json_row_keys.h"

#include <string_view>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "data/datasets/fingerprint.h"
#include "formats/records/jsonl.h"

namespace accel {

std::vector<uint64_t> json_row_keys(const std::string& path, const std::string& field,
                                    const std::vector<int64_t>* kept) {
  const SharedBytes file = map_file(path);
  JsonlReader reader(file.view, {field}, path);
  std::vector<uint64_t> keys;
  std::vector<std::string_view> values;
  int64_t number = 0;
  for (bool more = true; more; ++number) {
    const bool wanted = !kept || (keys.size() < kept->size() && (*kept)[keys.size()] == number);
    try {
      more = reader.next(values);
    } catch (const DataError&) {
      if (wanted) throw;
      continue;
    }
    if (more && wanted) keys.push_back(Fingerprint().add(values.front()).value());
  }
  return keys;
}

}  // namespace accel
