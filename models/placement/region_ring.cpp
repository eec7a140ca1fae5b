#include "models/placement/region_ring.h"

#include <algorithm>

namespace accel {

std::optional<int64_t> RegionRing::place(int64_t bytes) const {
  if (used_.empty()) return bytes <= capacity_ ? std::optional<int64_t>(0) : std::nullopt;
  const int64_t begin = used_.front().begin, end = used_.back().end;
  const bool is_wrapped = used_.back().begin < begin;
  if (end + bytes <= (is_wrapped ? begin : capacity_)) return end;
  if (!is_wrapped && bytes <= begin) return 0;
  return std::nullopt;
}

std::optional<int64_t> RegionRing::take(int64_t bytes) {
  const std::optional<int64_t> begin = place(bytes);
  if (!begin) return std::nullopt;
  used_.push_back({*begin, *begin + bytes});
  peak_ = std::max(peak_, *begin + bytes);
  return begin;
}

}  // namespace accel
