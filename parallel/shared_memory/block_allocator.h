// Allocator of offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace accel {

/// Allocates ranges of offsets from 0, first fit, aligned to kAlignment.
class BlockAllocator {
 public:
  static constexpr uint64_t kAlignment = 64;

  uint64_t allocate(size_t bytes);
  /// `offset` is a result of allocate().
  void free(uint64_t offset);

  size_t used() const { return used_; }
  /// Behind the last range that is allocated.
  uint64_t end() const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  ///< offset -> end
  size_t used_ = 0;
};

}  // namespace accel
