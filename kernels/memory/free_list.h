// Free list of a growing address range; it does not touch the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <utility>

namespace accel {

/// A range that grows at its end, allocates best fit, and never shrinks. In a free block, large
/// blocks are placed at the end and small ones at the beginning: small ones, whose lifetimes
/// differ, do not fragment the large ones. Blocks begin at multiples of 64 bytes with 64 bytes
/// between them, so that page-sized blocks do not share cache sets.
class FreeList {
 public:
  using Block = int64_t;  ///< its offset in the range, in bytes

  /// None if the range would exceed its limit.
  std::optional<Block> take(int64_t bytes);
  void give_back(Block block);

  /// Calls `use` with offset and size of each free block, including the one after the last block.
  void for_each_free_range(const std::function<void(int64_t, int64_t)>& use) const;

  /// The highest end of any block so far, in bytes.
  int64_t extent() const { return extent_; }
  /// The most bytes that blocks had at a time, with those between them.
  int64_t peak() const { return peak_; }
  /// Limits the range to `bytes`; existing blocks beyond stay.
  void limit(int64_t bytes) { limit_ = bytes; }

 private:
  void add_free_range(int64_t begin, int64_t size);
  void remove_free_range(int64_t begin, int64_t size);

  // Recycles the nodes of the maps.
  std::pmr::unsynchronized_pool_resource nodes_;
  std::pmr::map<Block, int64_t> blocks_{&nodes_};             // offset to size
  std::pmr::map<int64_t, int64_t> free_ranges_{&nodes_};      // offset to size
  std::pmr::set<std::pair<int64_t, int64_t>> best_{&nodes_};  // {size, offset}
  int64_t used_ = 0;                                          // end of the last block
  int64_t extent_ = 0;
  int64_t allocated_ = 0;
  int64_t peak_ = 0;
  int64_t limit_ = std::numeric_limits<int64_t>::max();
};

}  // namespace accel
