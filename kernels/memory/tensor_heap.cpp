#include "kernels/memory/tensor_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace accel {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kChunk = 1 << 18;    // bytes; holes are cleared by chunks
constexpr int64_t kGrowth = 32 << 20;  // bytes by which the usable range grows

}  // namespace

TensorHeap::TensorHeap(char* begin, int64_t reserved, int64_t most_mappings)
    : begin_(begin), reserved_(reserved), most_mappings_(most_mappings) {
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
  for (const ChunkRange& hole : holes()) clear(hole, touched_);
}

int64_t TensorHeap::resident() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return touched_ * kChunk;
}

void TensorHeap::touch(FreeList::Block block, int64_t bytes) {
  const ChunkRange all = {block / kChunk, (block + bytes + kChunk - 1) / kChunk};
  int64_t missing = 0;
  for (int64_t chunk = all.begin; chunk < all.end; ++chunk) missing += !touched(chunk);
  if (missing == 0) return;
  const int64_t most = (heap_.peak() + kMostFragmentation) / kChunk;
  if (touched_ + missing > most) move_holes_to(all, touched_ + missing - most);
  for (int64_t chunk = all.begin; chunk < all.end; ++chunk) {
    touched_ += !touched(chunk);
    is_touched_[static_cast<size_t>(chunk)] = true;
  }
  if (touched_ > most) clear_largest_holes(touched_ - most);
}

TensorHeap::ChunkRange TensorHeap::next_run(ChunkRange in, bool is_touched) const {
  int64_t begin = in.begin;
  while (begin < in.end && touched(begin) != is_touched) ++begin;
  int64_t end = begin;
  while (end < in.end && touched(end) == is_touched) ++end;
  return {begin, end};
}

void TensorHeap::move_holes_to(ChunkRange block, int64_t count) {
  ChunkRange to = next_run(block, false);
  for (const ChunkRange& hole : largest_holes()) {
    ChunkRange from = next_run(hole, true);
    while (from.size() > 0 && to.size() > 0 && count > 0) {
      const int64_t size = std::min({from.size(), to.size(), count});
      const int64_t moved = move(from.begin, to.begin, size);
      if (moved == 0) return;
      count -= moved;
      from = next_run({from.begin + moved, hole.end}, true);
      to = next_run({to.begin + moved, block.end}, false);
    }
  }
}

int64_t TensorHeap::move(int64_t from, int64_t to, int64_t count) {
  int64_t size = 1;  // within one mapping, or the call would fail
  while (size < count && !is_edge_[static_cast<size_t>(from + size)]) ++size;
  if (!may_map(to, size)) return 0;
  const auto bytes = static_cast<size_t>(size * kChunk);
  char* const target = begin_ + to * kChunk;
  if (mremap(begin_ + from * kChunk, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
             target) == MAP_FAILED) {
    most_mappings_ = 0;  // no more attempts
    // Linux may have unmapped the target before it failed.
    void* const restored = mmap(target, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (restored == MAP_FAILED) throw std::bad_alloc();
    return 0;
  }
  for (int64_t i = 0; i < size; ++i) {
    is_touched_[static_cast<size_t>(from + i)] = false;
    is_touched_[static_cast<size_t>(to + i)] = true;
  }
  return size;
}

bool TensorHeap::may_map(int64_t first, int64_t count) {
  const auto begin = static_cast<size_t>(first), end = static_cast<size_t>(first + count);
  const int64_t more = !is_edge_[begin] + !is_edge_[end];
  if (edges_ + more > most_mappings_) return false;
  is_edge_[begin] = is_edge_[end] = true;
  edges_ += more;
  return true;
}

void TensorHeap::clear(ChunkRange hole, int64_t most) {
  int64_t end = hole.begin;
  for (; end < hole.end && most > 0; ++end) {
    if (!touched(end)) continue;
    is_touched_[static_cast<size_t>(end)] = false;
    --touched_;
    --most;
  }
  if (end <= hole.begin) return;
  madvise(begin_ + hole.begin * kChunk, static_cast<size_t>((end - hole.begin) * kChunk),
          MADV_DONTNEED);
}

void TensorHeap::clear_largest_holes(int64_t count) {
  for (const ChunkRange& hole : largest_holes()) {
    const int64_t before = touched_;
    clear(hole, count);
    count -= before - touched_;
    if (count <= 0) return;
  }
}

std::vector<TensorHeap::ChunkRange> TensorHeap::holes() const {
  std::vector<ChunkRange> holes;
  heap_.for_each_free_range([&](int64_t begin, int64_t size) {
    const ChunkRange whole = {(begin + kChunk - 1) / kChunk,
                              std::min(begin + size, usable_) / kChunk};
    if (whole.size() > 0) holes.push_back(whole);
  });
  return holes;
}

std::vector<TensorHeap::ChunkRange> TensorHeap::largest_holes() const {
  std::vector<ChunkRange> all = holes();
  std::stable_sort(all.begin(), all.end(),
                   [](const ChunkRange& a, const ChunkRange& b) { return a.size() > b.size(); });
  return all;
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
  const auto edge = static_cast<size_t>(std::exchange(usable_, wanted) / kChunk);
  const auto chunks = static_cast<size_t>((usable_ + kChunk - 1) / kChunk);
  is_touched_.resize(chunks);
  is_edge_.resize(chunks + 1);
  is_edge_[edge] = true;  // the kernel may keep the new part as a mapping of its own
  return true;
}

}  // namespace accel
