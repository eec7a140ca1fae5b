// Blocks of one growing range of memory, without the memory: which bytes of it belong to whom.
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

/// A range that grows at its end, takes the best of its holes again, and never shrinks. Of a hole,
/// large blocks take the end and others the begin: small ones, which live for other times, do not
/// come to lie between large ones. Blocks begin at multiples of 64 bytes; neighbours have 64 bytes
/// between them, so that blocks of a page's size do not all meet in the same lines of a cache.
class BlockHeap {
 public:
  using Block = int64_t;  ///< where it begins, in bytes from the start of the range

  /// Nothing when the range would have to grow beyond its limit.
  std::optional<Block> take(int64_t bytes);
  void give_back(Block block);

  /// Calls `use` with where each part that no block has begins and its size, the one behind the
  /// last block included.
  void for_each_hole(const std::function<void(int64_t, int64_t)>& use) const;

  /// The end of the highest block there ever was, in bytes.
  int64_t extent() const { return extent_; }
  /// From here on the range may end there at most; blocks beyond it stay.
  void limit(int64_t bytes) { limit_ = bytes; }

 private:
  void add_hole(int64_t begin, int64_t size);
  void remove_hole(int64_t begin, int64_t size);

  // Nodes come and go with every block: those that have gone are taken again.
  std::pmr::unsynchronized_pool_resource nodes_;
  std::pmr::map<Block, int64_t> blocks_{&nodes_};             // sizes
  std::pmr::map<int64_t, int64_t> holes_{&nodes_};            // from where to their size
  std::pmr::set<std::pair<int64_t, int64_t>> best_{&nodes_};  // the same, by size and from where
  int64_t used_ = 0;                                          // where the last block ends
  int64_t extent_ = 0;
  int64_t limit_ = std::numeric_limits<int64_t>::max();
};

}  // namespace accel
