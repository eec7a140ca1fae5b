// How rows are divided over ranks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/api/parameter.h"

namespace accel {

/// Consecutive rows of one rank.
struct RowShare {
  int64_t first;
  int64_t count;
};

/// Rows of each rank but the last ones, of `rows` rows over `ranks` ranks, as torch.chunk divides.
constexpr int64_t rows_per_rank(int64_t rows, int64_t ranks) {
  return (rows + ranks - 1) / ranks;
}

/// The rows of `rank`: rows_per_rank(), fewer for the last rank that has some, and none after it.
constexpr RowShare row_share(int64_t rows, int64_t ranks, int64_t rank) {
  const int64_t each = rows_per_rank(rows, ranks);
  const int64_t first = std::min(rows, each * rank);
  return {first, std::min(each, rows - first)};
}

/// The rows of `rank` by a placement.
constexpr RowShare row_share(const Placement& placement, int64_t rows, int64_t ranks,
                             int64_t rank) {
  if (!placement.owner) return row_share(rows, ranks, rank);
  return {0, rank == *placement.owner ? rows : 0};
}

}  // namespace accel
