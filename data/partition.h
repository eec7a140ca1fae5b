// A list of items cut into one contiguous part for each rank, such as prompts to be answered.
#pragma once

#include <cstdint>

namespace accel {

/// Items first, first + 1, ... of a list.
struct Partition {
  int64_t first = 0;
  int64_t size = 0;
  int64_t padded = 0;  ///< 0 or 1: besides, the last item of the list so many times
};

/// The part of `rank` among `world` of `items`, as Accelerate's method of this name cuts them: the
/// first items % world ranks have one more than the others. With `padding` the others make up for
/// it, so that size + padded is the same on all. Throws std::logic_error for a rank that is not one
/// of `world` or fewer than no items.
Partition split_between_processes(int64_t items, int64_t rank, int64_t world, bool padding);

}  // namespace accel
