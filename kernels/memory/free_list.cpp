#include "kernels/memory/free_list.h"

#include <algorithm>

namespace accel {
namespace {

constexpr int64_t kUnit = 64;
constexpr int64_t kLarge =
    4 << 20;  // bytes; of 2 to 32 MiB, GPT-2's steps have the least fragmentation with this

}  // namespace

std::optional<FreeList::Block> FreeList::take(int64_t bytes) {
  const int64_t size = (bytes + kUnit - 1) / kUnit * kUnit + kUnit;
  const auto free_block = best_.lower_bound({size, 0});
  int64_t begin = used_;
  if (free_block != best_.end()) {
    const auto [room, from] = *free_block;
    remove_free_range(from, room);
    begin = bytes < kLarge ? from : from + room - size;
    if (room > size) add_free_range(begin == from ? from + size : from, room - size);
  } else {
    if (size > limit_ - used_) return std::nullopt;
    used_ += size;
    extent_ = std::max(extent_, used_);
  }
  blocks_[begin] = size;
  allocated_ += size;
  peak_ = std::max(peak_, allocated_);
  return begin;
}

void FreeList::give_back(Block block) {
  const auto found = blocks_.find(block);
  int64_t begin = block, size = found->second;
  blocks_.erase(found);
  allocated_ -= size;
  const auto behind = free_ranges_.find(begin + size);
  if (behind != free_ranges_.end()) {
    const int64_t more = behind->second;
    remove_free_range(begin + size, more);
    size += more;
  }
  auto before = free_ranges_.lower_bound(begin);
  if (before != free_ranges_.begin() && (--before)->first + before->second == begin) {
    begin = before->first;
    size += before->second;
    remove_free_range(begin, before->second);
  }
  if (begin + size == used_) {
    used_ = begin;
  } else {
    add_free_range(begin, size);
  }
}

void FreeList::for_each_free_range(const std::function<void(int64_t, int64_t)>& use) const {
  for (const auto& [begin, size] : free_ranges_) use(begin, size);
  if (extent_ > used_) use(used_, extent_ - used_);
}

void FreeList::add_free_range(int64_t begin, int64_t size) {
  free_ranges_[begin] = size;
  best_.emplace(size, begin);
}

void FreeList::remove_free_range(int64_t begin, int64_t size) {
  free_ranges_.erase(begin);
  best_.erase({size, begin});
}

}  // namespace accel
