#include "parallel/shared_memory/block_allocator.h"

#include <algorithm>
#include <stdexcept>

namespace accel {

uint64_t BlockAllocator::allocate(size_t bytes) {
  // An empty range takes space too: no two have the same offset.
  const uint64_t size = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t offset = 0;
  for (const auto& [start, end] : ranges_) {
    if (start - offset >= size) break;
    offset = end;
  }
  ranges_[offset] = offset + size;
  used_ += size;
  return offset;
}

void BlockAllocator::free(uint64_t offset) {
  const auto found = ranges_.find(offset);
  if (found == ranges_.end()) throw std::logic_error("the block is not allocated");
  used_ -= found->second - offset;
  ranges_.erase(found);
}

uint64_t BlockAllocator::end() const {
  return ranges_.empty() ? 0 : ranges_.rbegin()->second;
}

}  // namespace accel
