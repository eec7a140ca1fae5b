// Places for regions of different sizes in a ring of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace accel {

/// Regions are contiguous, and freed in the order in which they were taken.
class RegionRing {
 public:
  explicit RegionRing(int64_t capacity) : capacity_(capacity) {}

  int64_t capacity() const { return capacity_; }
  /// The offset of a region of `bytes`; null: too many are in use.
  std::optional<int64_t> take(int64_t bytes);
  void free_oldest() { used_.pop_front(); }
  void clear() { used_.clear(); }
  /// The most bytes that regions have covered.
  int64_t peak() const { return peak_; }

 private:
  struct Region {
    int64_t begin, end;
  };
  std::optional<int64_t> place(int64_t bytes) const;

  int64_t capacity_;
  std::deque<Region> used_;
  int64_t peak_ = 0;
};

}  // namespace accel
