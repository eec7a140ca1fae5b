// Memory of large tensors and of MKL's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/memory/free_list.h"

namespace accel {

/// Smaller blocks come from the C library.
inline constexpr int64_t kLeastTensorBlock = 1 << 17;

/// The most memory that holes of a TensorHeap take, in bytes.
inline constexpr int64_t kMostFragmentation = 4 << 20;

/// The most mappings of addresses that a TensorHeap makes of its own; the kernel lets a process
/// have 65,530.
inline constexpr int64_t kMostMappings = 16384;

/// A FreeList over reserved addresses, which are committed as they are needed. Its resident memory
/// exceeds the peak of allocated bytes by at most kMostFragmentation: beyond it, a new block gets
/// the pages of holes by mremap(), which takes 1/30 of the time of a page fault, or, where the
/// kernel refuses, they return to the OS. Its functions may be called by any thread.
class TensorHeap {
 public:
  /// Uses the `reserved` bytes of addresses from `begin`.
  TensorHeap(char* begin, int64_t reserved, int64_t most_mappings = kMostMappings);

  /// A block that begins at a multiple of 64 bytes; null without room for it.
  void* take(size_t bytes);
  /// Like take(), with pages that use no memory until they are touched.
  void* take_clear(size_t bytes);
  /// Frees a block of take().
  void give_back(const void* data);
  /// Whether `data` is a block of take().
  bool contains(const void* data) const;

  /// Returns the pages of free blocks to the OS; they are zero when they are touched again.
  void clear_holes();

  /// Bytes of chunks that blocks have touched since they were last cleared.
  int64_t resident();

 private:
  struct ChunkRange {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };

  int64_t offset_of(const void* data) const;
  bool grow();
  bool touched(int64_t chunk) const { return is_touched_[static_cast<size_t>(chunk)]; }
  void touch(FreeList::Block block, int64_t bytes);
  /// The first run of chunks that are, or are not, touched; empty at the end.
  ChunkRange next_run(ChunkRange in, bool is_touched) const;
  /// Moves the pages of `count` chunks of holes, or fewer, to untouched chunks of a block.
  void move_holes_to(ChunkRange block, int64_t count);
  /// Moves the pages of the first of `count` chunks; returns their number, or 0 if none can be
  /// moved.
  int64_t move(int64_t from, int64_t to, int64_t count);
  /// Whether these chunks may become a mapping.
  bool may_map(int64_t first, int64_t count);
  /// Returns `most` touched chunks of the hole to the OS.
  void clear(ChunkRange hole, int64_t most);
  void clear_largest_holes(int64_t count);
  std::vector<ChunkRange> holes() const;
  std::vector<ChunkRange> largest_holes() const;

  char* const begin_;
  const int64_t reserved_;
  std::mutex mutex_;  // guards the members below
  FreeList heap_;
  int64_t usable_ = 0;
  std::vector<bool> is_touched_;  // chunks of the usable range
  int64_t touched_ = 0;           // their number
  std::vector<bool> is_edge_;     // whether a mapping may begin at a chunk
  int64_t edges_ = 0;             // their number, without those of growth
  int64_t most_mappings_;
};

}  // namespace accel
