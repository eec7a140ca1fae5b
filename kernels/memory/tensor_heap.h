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
inline constexpr int64_t kMostFragmentation = 16 << 20;

/// A FreeList over reserved addresses, which are committed as they are needed. Its resident memory
/// exceeds the peak of allocated bytes by at most kMostFragmentation: beyond it, pages of holes
/// return to the OS. Its functions may be called by any thread.
class TensorHeap {
 public:
  /// Uses the `reserved` bytes of addresses from `begin`.
  TensorHeap(char* begin, int64_t reserved);

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
  int64_t offset_of(const void* data) const;
  bool grow();
  void touch(FreeList::Block block, int64_t bytes);
  void clear(int64_t begin, int64_t size, int64_t most);
  void bound_holes();

  char* const begin_;
  const int64_t reserved_;
  std::mutex mutex_;  // guards the members below
  FreeList heap_;
  int64_t usable_ = 0;
  std::vector<bool> is_touched_;  // chunks of the usable range
  int64_t touched_ = 0;           // their number
};

}  // namespace accel
