#include "kernels/memory/tensor_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace accel {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kChunk = 1 << 18;    // bytes; holes are cleared by chunks
constexpr int64_t kGrowth = 32 << 20;  // bytes by which the usable range grows

}  // namespace

TensorHeap::TensorHeap(char* begin, int64_t reserved) : begin_(begin), reserved_(reserved) {
  heap_.limit(reserved_);
}

void* TensorHeap::take(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<FreeList::Block> block = heap_.take(static_cast<int64_t>(bytes));
  if (!block) return nullptr;
  if (heap_.extent() > usable_ && !grow()) {
    heap_.give_back(*block);
    heap_.limit(usable_);
    return nullptr;
  }
  touch(*block, static_cast<int64_t>(bytes));
  return begin_ + *block;
}

void* TensorHeap::take_clear(size_t bytes) {
  void* data = take(bytes);
  if (!data) return nullptr;
  const int64_t block = offset_of(data);
  const int64_t first = (block + kPage - 1) / kPage * kPage;
  const int64_t last = (block + static_cast<int64_t>(bytes)) / kPage * kPage;
  if (last > first) madvise(begin_ + first, static_cast<size_t>(last - first), MADV_DONTNEED);
  return data;
}

void TensorHeap::give_back(const void* data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  heap_.give_back(offset_of(data));
}

bool TensorHeap::contains(const void* data) const {
  const int64_t block = offset_of(data);
  return block >= 0 && block < reserved_;
}

void TensorHeap::clear_holes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  heap_.for_each_free_range([this](int64_t begin, int64_t size) { clear(begin, size, touched_); });
}

int64_t TensorHeap::resident() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return touched_ * kChunk;
}

void TensorHeap::touch(FreeList::Block block, int64_t bytes) {
  const int64_t before = touched_;
  for (int64_t chunk = block / kChunk; chunk * kChunk < block + bytes; ++chunk) {
    const auto index = static_cast<size_t>(chunk);
    if (is_touched_[index]) continue;
    is_touched_[index] = true;
    ++touched_;
  }
  if (touched_ > before) bound_holes();
}

void TensorHeap::clear(int64_t begin, int64_t size, int64_t most) {
  const int64_t last = std::min(begin + size, usable_) / kChunk;
  const int64_t first = (begin + kChunk - 1) / kChunk;
  int64_t end = first;
  for (; end < last && most > 0; ++end) {
    const auto index = static_cast<size_t>(end);
    if (!is_touched_[index]) continue;
    is_touched_[index] = false;
    --touched_;
    --most;
  }
  if (end <= first) return;
  madvise(begin_ + first * kChunk, static_cast<size_t>((end - first) * kChunk), MADV_DONTNEED);
}

void TensorHeap::bound_holes() {
  const int64_t most = (heap_.peak() + kMostFragmentation) / kChunk;
  if (touched_ <= most) return;
  // The largest ones: it is the small ones that the next blocks fit into best.
  std::vector<std::pair<int64_t, int64_t>> holes;  // {size, begin}
  heap_.for_each_free_range([&](int64_t begin, int64_t size) { holes.emplace_back(size, begin); });
  std::sort(holes.rbegin(), holes.rend());
  for (const auto& [size, begin] : holes) {
    if (touched_ <= most) return;
    clear(begin, size, touched_ - most);
  }
}

int64_t TensorHeap::offset_of(const void* data) const {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) -
                              reinterpret_cast<uintptr_t>(begin_));
}

bool TensorHeap::grow() {
  const int64_t wanted = std::min((heap_.extent() + kGrowth - 1) / kGrowth * kGrowth, reserved_);
  if (mprotect(begin_ + usable_, static_cast<size_t>(wanted - usable_), PROT_READ | PROT_WRITE)) {
    return false;
  }
  usable_ = wanted;
  is_touched_.resize(static_cast<size_t>((usable_ + kChunk - 1) / kChunk));
  return true;
}

}  // namespace accel
