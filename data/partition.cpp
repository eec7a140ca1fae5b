#include "data/partition.h"

#include <algorithm>
#include <stdexcept>

namespace accel {

Partition split_between_processes(int64_t items, int64_t rank, int64_t world, bool padding) {
  if (items < 0 || rank < 0 || rank >= world) {
    throw std::logic_error("a part is asked for that there is not");
  }
  const int64_t each = items / world;
  const int64_t extras = items % world;
  Partition part{.first = rank * each + std::min(rank, extras),
                 .size = each + (rank < extras ? 1 : 0)};
  if (padding && extras > 0 && rank >= extras) part.padded = 1;
  return part;
}

}  // namespace accel
