#include "runner/job/block_heap.h"

#include <algorithm>

namespace accel {
namespace {

constexpr int64_t kUnit = 64;
constexpr int64_t kLarge = 4 << 20;  // bytes; of 2 to 32 MiB GPT-2's steps leave the least in holes

}  // namespace

std::optional<BlockHeap::Block> BlockHeap::take(int64_t bytes) {
  const int64_t size = (bytes + kUnit - 1) / kUnit * kUnit + kUnit;
  const auto hole = best_.lower_bound({size, 0});
  int64_t begin = used_;
  if (hole != best_.end()) {
    const auto [room, from] = *hole;
    remove_hole(from, room);
    begin = bytes < kLarge ? from : from + room - size;
    if (room > size) add_hole(begin == from ? from + size : from, room - size);
  } else {
    if (size > limit_ - used_) return std::nullopt;
    used_ += size;
    extent_ = std::max(extent_, used_);
  }
  blocks_[begin] = size;
  return begin;
}

void BlockHeap::give_back(Block block) {
  const auto found = blocks_.find(block);
  int64_t begin = block, size = found->second;
  blocks_.erase(found);
  const auto behind = holes_.find(begin + size);
  if (behind != holes_.end()) {
    const int64_t more = behind->second;
    remove_hole(begin + size, more);
    size += more;
  }
  auto before = holes_.lower_bound(begin);
  if (before != holes_.begin() && (--before)->first + before->second == begin) {
    begin = before->first;
    size += before->second;
    remove_hole(begin, before->second);
  }
  if (begin + size == used_) {
    used_ = begin;
  } else {
    add_hole(begin, size);
  }
}

void BlockHeap::for_each_hole(const std::function<void(int64_t, int64_t)>& use) const {
  for (const auto& [begin, size] : holes_) use(begin, size);
  if (extent_ > used_) use(used_, extent_ - used_);
}

void BlockHeap::add_hole(int64_t begin, int64_t size) {
  holes_[begin] = size;
  best_.emplace(size, begin);
}

void BlockHeap::remove_hole(int64_t begin, int64_t size) {
  holes_.erase(begin);
  best_.erase({size, begin});
}

}  // namespace accel
