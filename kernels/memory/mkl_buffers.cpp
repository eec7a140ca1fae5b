#include "kernels/memory/mkl_buffers.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "kernels/memory/caching_allocator.h"

namespace accel {
namespace {

TensorHeap* heap_of_mkl = nullptr;

/// A block of a thread.
struct KeptBlock {
  void* data = nullptr;
  size_t bytes = 0;
  bool is_used = false;
};

/// Blocks that a thread reuses without a lock, and in cached memory.
class KeptBlocks {
 public:
  ~KeptBlocks() {
    for (const KeptBlock& block : blocks_) {
      if (block.data && !block.is_used) heap_of_mkl->give_back(block.data);
    }
  }

  /// A free block of at least `bytes` bytes, or null.
  void* take(size_t bytes) {
    for (KeptBlock& block : blocks_) {
      if (block.is_used || block.bytes < bytes || block.bytes > 2 * bytes) continue;
      block.is_used = true;
      return block.data;
    }
    return nullptr;
  }

  /// A new block in use. It takes the place of a free one, which is given back.
  void add(void* data, size_t bytes) {
    for (KeptBlock& block : blocks_) {
      if (block.data == data) block = {};  // another thread has given it back
    }
    for (KeptBlock& block : blocks_) {
      if (block.is_used) continue;
      if (block.data) heap_of_mkl->give_back(block.data);
      block = {data, bytes, true};
      return;
    }
  }

  /// Whether `data` is now a free block of this thread.
  bool keep(const void* data) {
    for (KeptBlock& block : blocks_) {
      if (block.data != data || !block.is_used) continue;
      block.is_used = false;
      return true;
    }
    return false;
  }

 private:
  std::array<KeptBlock, 4> blocks_;
};

thread_local KeptBlocks kept_blocks;

void* allocate(size_t bytes) {
  if (static_cast<int64_t>(bytes) < kLeastTensorBlock) return std::malloc(bytes);
  const bool is_kept = bytes <= kMostKeptByMkl;
  void* data = is_kept ? kept_blocks.take(bytes) : nullptr;
  if (data) return data;
  data = heap_of_mkl->take(bytes);
  if (!data) return std::malloc(bytes);
  if (is_kept) kept_blocks.add(data, bytes);
  return data;
}

void free_block(void* data) {
  if (!heap_of_mkl->contains(data)) return std::free(data);
  if (!kept_blocks.keep(data)) heap_of_mkl->give_back(data);
}

}  // namespace

void share_heap_with_mkl(TensorHeap& heap) {
  void** const of_malloc = static_cast<void**>(dlsym(RTLD_DEFAULT, "i_malloc"));
  void** const of_free = static_cast<void**>(dlsym(RTLD_DEFAULT, "i_free"));
  void* const disable_fast_mm = dlsym(RTLD_DEFAULT, "mkl_serv_disable_fast_mm");
  if (!of_malloc || !of_free || !disable_fast_mm || heap_of_mkl) return;
  heap_of_mkl = &heap;
  // oneMKL Developer Reference, "Redefining Memory Functions": variables for the program to set.
  *of_malloc = reinterpret_cast<void*>(&allocate);
  *of_free = reinterpret_cast<void*>(&free_block);
  reinterpret_cast<int (*)()>(disable_fast_mm)();
}

}  // namespace accel
