#include "runner/plan/heap_model.h"

#include <algorithm>

namespace accel {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kRoom = 128 << 10;         // taken and left beyond what is needed
constexpr int64_t kMostBorder = 32ll << 20;  // larger blocks are always mapped
constexpr int64_t kHeader = 64;              // beside a block, with its alignment

int64_t round_up(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

HeapModel::Block HeapModel::take(int64_t bytes) {
  if (bytes >= border_) {
    mapped_ += round_up(bytes + kHeader, kPage);
    blocks_[next_mapping_] = bytes;
    return next_mapping_--;
  }
  const int64_t size = round_up(bytes + kHeader, 64);
  const auto hole = best_.lower_bound({size, 0});
  int64_t begin = used_;
  if (hole != best_.end()) {
    const auto [room, from] = *hole;
    begin = from;
    remove_hole(from, room);
    if (room > size) add_hole(from + size, room - size);
  } else {
    used_ += size;
    if (used_ > end_) end_ = round_up(used_ + kRoom, kPage);
  }
  blocks_[begin] = size;
  return begin;
}

void HeapModel::give_back(Block block) {
  const auto found = blocks_.find(block);
  int64_t size = found->second;
  blocks_.erase(found);
  if (block < 0) {
    mapped_ -= round_up(size + kHeader, kPage);
    if (size > border_ && size <= kMostBorder) border_ = size;
    return;
  }
  int64_t begin = block;
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
    trim();
  } else {
    add_hole(begin, size);
  }
}

void HeapModel::add_hole(int64_t begin, int64_t size) {
  holes_[begin] = size;
  best_.emplace(size, begin);
}

void HeapModel::remove_hole(int64_t begin, int64_t size) {
  holes_.erase(begin);
  best_.erase({size, begin});
}

void HeapModel::trim() {
  if (end_ - used_ > 2 * border_) end_ = round_up(used_ + kRoom, kPage);
}

}  // namespace accel
