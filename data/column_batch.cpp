#include "data/column_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/rows.h"

namespace accel {
namespace {

/// For `samples` rows like those of `all`, as `type`: `done`, where it is one and nobody else's.
Array stack_for(const Array& all, DType type, int64_t samples, Array done) {
  const Shape &rows = all.shape(), &shape = done.shape();
  const bool fits = !done.empty() && done.type() == type && shape.size() == rows.size() &&
                    shape[0] == samples &&
                    std::equal(shape.begin() + 1, shape.end(), rows.begin() + 1);
  if (fits && done.is_only_owner()) return done;
  Shape stacked = rows;
  stacked[0] = samples;
  return Array(type, std::move(stacked));
}

Array stacked_rows(const Array& all, bool unit_range, const std::vector<int64_t>& ids, Array done) {
  const DType type = unit_range ? DType::kF32 : all.type();
  Array out = stack_for(all, type, static_cast<int64_t>(ids.size()), std::move(done));
  const auto row = static_cast<size_t>(out.count()) / ids.size();
  std::byte* to = out.mutable_data();
  for (const int64_t id : ids) {
    const std::byte* const from = all.data() + static_cast<size_t>(id) * row * size_of(all.type());
    if (unit_range) {
      put_unit_range(from, static_cast<int64_t>(row), reinterpret_cast<float*>(to));
    } else if (row > 0) {
      std::memcpy(to, from, row * size_of(type));
    }
    to += row * size_of(type);
  }
  return out;
}

}  // namespace

HostBatch column_batch(const Columns& columns, std::vector<int64_t> ids, HostBatch done) {
  HostBatch out{
      .inputs = stacked_rows(columns.inputs, columns.unit_range, ids, std::move(done.inputs)),
      .targets = stacked_rows(columns.targets, false, ids, std::move(done.targets)),
      .ids = {}};
  out.ids = std::move(ids);
  return out;
}

}  // namespace accel
