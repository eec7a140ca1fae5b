// How much memory the C library takes from the system for blocks that come and go.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace accel {

/// glibc's malloc() as it looks from outside, for one thread: large blocks are mappings of their
/// own, smaller ones lie in a heap that grows at its end, takes the best of its holes again, and
/// shrinks only there. The border between the two follows the largest mapping that was freed.
class HeapModel {
 public:
  using Block = int64_t;

  Block take(int64_t bytes);
  void give_back(Block block);

  /// Bytes of the system's that it has.
  int64_t resident() const { return mapped_ + end_; }

 private:
  void add_hole(int64_t begin, int64_t size);
  void remove_hole(int64_t begin, int64_t size);
  void trim();

  int64_t border_ = 128 << 10;  // blocks of so many bytes are mapped
  int64_t mapped_ = 0;
  int64_t next_mapping_ = -1;
  std::map<Block, int64_t> blocks_;             // sizes; negative blocks are mappings
  std::map<int64_t, int64_t> holes_;            // of the heap: from where to their size
  std::set<std::pair<int64_t, int64_t>> best_;  // the same, by size and from where
  int64_t used_ = 0;                            // where the last block ends
  int64_t end_ = 0;                             // of what the heap has of the system's
};

}  // namespace accel
